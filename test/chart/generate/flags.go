// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

const schema = "charts/taintkeeper/values.schema.json"

// ofType says which values a flag of a type takes, as a JSON schema.
var ofType = map[string]string{
	"":               `{"type": "boolean"}`,
	"duration":       `{"$ref": "#/definitions/duration"}`,
	"float32":        `{"type": "number", "minimum": 0, "maximum": 1e38}`,
	"int":            `{"type": "integer", "minimum": 0, "maximum": 2147483647}`,
	"int32":          `{"type": "integer", "minimum": 0, "maximum": 2147483647}`,
	"string":         `{"type": "string"}`,
	"strings":        `{"type": "string"}`,
	"stringToString": `{"type": "string"}`,
}

// ofFlag says the same for flags that refuse some values of their type, or take more of them.
var ofFlag = map[string]string{
	"concurrent-evictions":               `{"type": "integer", "minimum": 1, "maximum": 100}`,
	"feature-gates":                      `{"type": "string", "pattern": "^TaintTolerationComparisonOperators=(true|false)$"}`,
	"node-eviction-rate":                 `{"$ref": "#/definitions/rate"}`,
	"secondary-node-eviction-rate":       `{"$ref": "#/definitions/rate"}`,
	"unhealthy-zone-threshold":           `{"type": "number", "minimum": 1e-9, "maximum": 1}`,
	"zone-full-disruption-eviction-rate": `{"anyOf": [{"const": -1}, {"$ref": "#/definitions/rate"}]}`,
}

// flagLine is a line of the program's help: the name of a flag, its type if that is not bool, and what it means.
var flagLine = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z0-9-]+)(?: (\w+))? {2,}`)

// withFlags returns the schema of the values with the flags of the program in extraFlags. Templates refuse those of
// them that other values set, with a sentence that the schema could not say.
func withFlags(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, schema))
	if err != nil {
		return "", err
	}
	help := exec.Command("go", "run", "./cmd/taintkeeper", "--help")
	help.Dir, help.Stderr = root, os.Stderr
	output, err := help.Output()
	if err != nil {
		return "", fmt.Errorf("ask the program for its flags: %w", err)
	}
	properties, err := flagProperties(string(output))
	if err != nil {
		return "", err
	}
	return replaced(string(text), "    \"extraFlags\": {\n", "    },\n", properties)
}

// flagProperties returns the keywords of a schema for an object that has some of the flags that a help text describes.
// A name that begins with a dash is left to the templates, too.
func flagProperties(help string) (string, error) {
	var flags []string
	for _, match := range flagLine.FindAllStringSubmatch(help, -1) {
		name, kind := match[1], match[2]
		takes, ok := ofFlag[name]
		if !ok {
			takes, ok = ofType[kind]
		}
		if !ok {
			return "", fmt.Errorf("--%s: no schema for the type %s", name, kind)
		}
		flags = append(flags, fmt.Sprintf("        %q: %s", name, takes))
	}
	return `      "type": "object",
      "additionalProperties": false,
      "patternProperties": {"^-": true},
      "properties": {
` + strings.Join(flags, ",\n") + "\n      }\n", nil
}
