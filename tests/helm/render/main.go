// render does to a chart what `helm template` does, with the libraries that Helm uses, for the
// tests of helm/: Debian has no package of Helm. It prints JSON: the objects, their text, the notes.
//
// usage: render [--values FILE]... [--subchart [ALIAS=]DIR]... [--api VERSION]... [--existing FILE] CHART
//
// The objects of the --existing file (a list, YAML or JSON) are those that a cluster has: `lookup`.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"

	"sigs.k8s.io/yaml"
)

// apiVersions is .Capabilities.APIVersions.
type apiVersions []string

// Has tells whether a cluster serves that API version.
func (v apiVersions) Has(wanted string) bool {
	for _, one := range v {
		if one == wanted {
			return true
		}
	}
	return false
}

func run(arguments []string) (*rendered, error) {
	var top string
	given := map[string]interface{}{}
	subcharts := []*chart{}
	apis := apiVersions{"v1", "apps/v1", "networking.k8s.io/v1"}
	existing := []map[string]interface{}{}
	for at := 0; at < len(arguments); at++ {
		switch word := arguments[at]; word {
		case "--values", "--subchart", "--api", "--existing":
			at++
			if at == len(arguments) {
				return nil, fmt.Errorf("%s needs a value", word)
			}
			switch value := arguments[at]; word {
			case "--values":
				text, err := os.ReadFile(value)
				if err != nil {
					return nil, err
				}
				file := map[string]interface{}{}
				if err := yaml.UnmarshalStrict(text, &file); err != nil {
					return nil, fmt.Errorf("%s: %w", value, err)
				}
				given = merge(given, file)
			case "--subchart":
				alias, dir, isAliased := strings.Cut(value, "=")
				if !isAliased {
					dir = value
				}
				sub, err := loadChart(dir)
				if err != nil {
					return nil, err
				}
				if isAliased {
					sub.meta["name"] = alias
				}
				subcharts = append(subcharts, sub)
			case "--api":
				apis = append(apis, value)
			case "--existing":
				text, err := os.ReadFile(value)
				if err != nil {
					return nil, err
				}
				if err := yaml.Unmarshal(text, &existing); err != nil {
					return nil, fmt.Errorf("%s: %w", value, err)
				}
			}
		default:
			top = word
		}
	}
	c, err := loadChart(top)
	if err != nil {
		return nil, err
	}
	c.charts = subcharts
	c.settle(given)
	if err := c.check(); err != nil {
		return nil, err
	}
	release := scope{"Name": "shop", "Namespace": "agents", "Service": "Helm", "IsInstall": true,
		"IsUpgrade": false, "Revision": 1}
	capabilities := scope{"APIVersions": apis,
		"KubeVersion": scope{"Version": "v1.31.0", "Major": "1", "Minor": "31"}}
	e := newEngine(existing)
	if _, err := e.add(c, c.name(), release, capabilities); err != nil {
		return nil, err
	}
	return e.render(path.Join(c.name(), "templates/NOTES.txt"))
}

func main() {
	out, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		os.Exit(1)
	}
}
