package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

// scope is what a template sees as its dot; a type of its own, as in Helm.
type scope map[string]interface{}

// engine renders the templates of a chart and its subcharts, which share one space of names.
type engine struct {
	root     *template.Template
	scopes   map[string]scope         // by the name of the template
	existing []map[string]interface{} // objects of the cluster
}

// lookup finds an object of the cluster; without one, as with `helm template`, it is an empty map.
func (e *engine) lookup(version, kind, namespace, name string) map[string]interface{} {
	for _, one := range e.existing {
		meta, _ := one["metadata"].(map[string]interface{})
		if one["apiVersion"] == version && one["kind"] == kind && meta["namespace"] == namespace &&
			meta["name"] == name {
			return one
		}
	}
	return map[string]interface{}{}
}

func toYAML(value interface{}) string {
	text, err := yaml.Marshal(value)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(text), "\n")
}

func (e *engine) include(name string, data interface{}) (string, error) {
	var out strings.Builder
	err := e.root.ExecuteTemplate(&out, name, data)
	return clean(out.String()), err
}

func (e *engine) tpl(text string, data interface{}) (string, error) {
	clone, err := e.root.Clone()
	if err != nil {
		return "", err
	}
	parsed, err := clone.New("tpl").Parse(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = parsed.Execute(&out, data)
	return clean(out.String()), err
}

func (e *engine) functions() template.FuncMap {
	all := sprig.TxtFuncMap()
	delete(all, "env") // as in Helm: charts know nothing of the machine
	delete(all, "expandenv")
	all["include"] = e.include
	all["tpl"] = e.tpl
	all["toYaml"] = toYAML
	all["toJson"] = func(value interface{}) (string, error) {
		text, err := json.Marshal(value)
		return string(text), err
	}
	all["fromYaml"] = func(text string) (map[string]interface{}, error) {
		out := map[string]interface{}{}
		return out, yaml.Unmarshal([]byte(text), &out)
	}
	all["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, errors.New(message)
		}
		return value, nil
	}
	all["fail"] = func(message string) (string, error) { return "", errors.New(message) }
	all["lookup"] = e.lookup
	return all
}

// clean: Helm prints nothing for what is not there.
func clean(text string) string { return strings.ReplaceAll(text, "<no value>", "") }

func newEngine(existing []map[string]interface{}) *engine {
	e := &engine{root: template.New("root").Option("missingkey=zero"), scopes: map[string]scope{},
		existing: existing}
	e.root.Funcs(e.functions())
	return e
}

// add parses the templates of a chart and gives its scope; `release` is shared by all.
func (e *engine) add(c *chart, prefix string, release, capabilities interface{}) (scope, error) {
	subcharts := scope{}
	meta := scope{} // Helm writes the fields with capitals: .Chart.AppVersion
	for key, value := range c.meta {
		meta[strings.ToUpper(key[:1])+key[1:]] = value
	}
	mine := scope{"Chart": meta, "Values": scope(c.values), "Files": c.files, "Release": release,
		"Capabilities": capabilities, "Subcharts": subcharts}
	for _, sub := range c.charts {
		theirs, err := e.add(sub, path.Join(prefix, "charts", sub.name()), release, capabilities)
		if err != nil {
			return nil, err
		}
		subcharts[sub.name()] = theirs
	}
	for name, text := range c.templates {
		name = path.Join(prefix, name)
		if _, err := e.root.New(name).Parse(text); err != nil {
			return nil, err
		}
		e.scopes[name] = scope{"Template": scope{"Name": name, "BasePath": path.Join(prefix, "templates")}}
		for key, value := range mine {
			e.scopes[name][key] = value
		}
	}
	return mine, nil
}

// rendered is what `helm install` would send, and say.
type rendered struct {
	Notes   string        `json:"notes"`
	Text    string        `json:"text"`
	Objects []interface{} `json:"objects"`
}

func (e *engine) render(notes string) (*rendered, error) {
	out := &rendered{}
	names := make([]string, 0, len(e.scopes))
	for name := range e.scopes {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if strings.HasPrefix(path.Base(name), "_") {
			continue
		}
		text, err := e.include(name, e.scopes[name])
		if err != nil {
			return nil, err
		}
		if path.Base(name) == "NOTES.txt" {
			if name == notes { // those of subcharts are not shown
				out.Notes = text
			}
			continue
		}
		if err := out.take(name, text); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r *rendered) take(name, text string) error {
	for _, document := range strings.Split("\n"+text, "\n---") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		var object interface{}
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, document)
		}
		if object == nil {
			continue // only comments
		}
		r.Objects = append(r.Objects, object)
		r.Text += "---\n# Source: " + name + string(bytes.TrimRight([]byte(document), "\n ")) + "\n"
	}
	return nil
}
