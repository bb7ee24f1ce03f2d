// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command clocks reads its clocks each time it gets a line, and after every second line writes what it read.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

func main() {
	asks := bufio.NewScanner(os.Stdin)
	for asks.Scan() {
		before := time.Now()
		fmt.Println("sleeping")
		if !asks.Scan() {
			return
		}
		after := time.Now()
		err := json.NewEncoder(os.Stdout).Encode(map[string]any{
			"Wall": after, "Slept": after.Sub(before), "Elapsed": after.Round(0).Sub(before.Round(0)),
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
