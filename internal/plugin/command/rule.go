// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package command

// RuleOfTheEvictor says by whose rule commands answer, for help texts.
const RuleOfTheEvictor = `The answer depends on who evicts. If only kube-controller-manager does, the command says so in its first line and
answers by that controller's rule: it ignores a second taint during a countdown, counts again from when its leader
began to lead, and does not stop an eviction after an untaint. A note says how many pods Taintkeeper would treat
differently. In all other cases, and if nothing shows who evicts, Taintkeeper's rule decides.`
