package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/xeipuuv/gojsonschema"
	"sigs.k8s.io/yaml"
)

// chart is a folder as Helm reads it.
type chart struct {
	meta      map[string]interface{}
	values    map[string]interface{}
	schema    []byte // nil: none
	templates map[string]string
	files     files
	charts    []*chart
}

// files is what templates see as .Files.
type files map[string][]byte

// Get gives the empty text for a file that is not there, as Helm does.
func (f files) Get(name string) string { return string(f[name]) }

func (c *chart) name() string { return c.meta["name"].(string) }

func loadChart(dir string) (*chart, error) {
	c := &chart{templates: map[string]string{}, files: files{}}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return c.take(name, text)
	})
	if err == nil && c.meta == nil {
		err = fmt.Errorf("%s: there is no Chart.yaml", dir)
	}
	return c, err
}

func (c *chart) take(name string, text []byte) error {
	switch {
	case name == "Chart.yaml":
		return yaml.UnmarshalStrict(text, &c.meta)
	case name == "values.yaml":
		return yaml.UnmarshalStrict(text, &c.values)
	case name == "values.schema.json":
		c.schema = text
	case strings.HasPrefix(name, "templates/"):
		c.templates[name] = string(text)
	case !strings.HasPrefix(name, "ci/"): // Helm packages leave them out (.helmignore)
		c.files[name] = text
	}
	return nil
}

// merge lays `over` on `under`, as Helm lays values files on each other: maps are merged, null
// takes a key away, everything else is replaced.
func merge(under, over map[string]interface{}) map[string]interface{} {
	out := map[string]interface{}{}
	for key, value := range under {
		out[key] = value
	}
	for key, value := range over {
		below, hadMap := out[key].(map[string]interface{})
		above, isMap := value.(map[string]interface{})
		switch {
		case value == nil:
			delete(out, key)
		case isMap && hadMap:
			out[key] = merge(below, above)
		default:
			out[key] = value
		}
	}
	return out
}

// settle gives every chart its values: those of subcharts stand under their names in their parent's.
func (c *chart) settle(given map[string]interface{}) {
	c.values = merge(c.values, given)
	for _, sub := range c.charts {
		below, _ := c.values[sub.name()].(map[string]interface{})
		sub.settle(merge(map[string]interface{}{"global": map[string]interface{}{}}, below))
		c.values[sub.name()] = sub.values
	}
}

// check holds the values to the schemas, with the library and the words of Helm 3.
func (c *chart) check() error {
	said := []string{}
	if c.schema != nil {
		result, err := gojsonschema.Validate(
			gojsonschema.NewBytesLoader(c.schema), gojsonschema.NewGoLoader(c.values))
		if err != nil {
			return err
		}
		for _, one := range result.Errors() {
			said = append(said, "- "+one.String())
		}
	}
	if len(said) > 0 {
		sort.Strings(said)
		return fmt.Errorf("values don't meet the specifications of the schema(s) in the following "+
			"chart(s):\n%s:\n%s", c.name(), strings.Join(said, "\n"))
	}
	for _, sub := range c.charts {
		if err := sub.check(); err != nil {
			return err
		}
	}
	return nil
}
