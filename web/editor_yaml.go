package web

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"breakwater/internal/conf"
)

// The editor writes into the text that was typed, section by section: what the form
// did not touch stays byte for byte, comments and all.

// readTree reads a text that holds one document as plain values; false: it cannot be
// read, so that nothing may be written into it.
func readTree(text string) (map[string]any, bool) {
	var log conf.Log
	docs := conf.Split(conf.File{Name: "scenario", Data: []byte(text)}, &log)
	if len(docs) != 1 || slices.ContainsFunc(log.Errors(), func(m *conf.Mistake) bool { return strings.HasPrefix(m.Text, "must be YAML") }) {
		return nil, false
	}
	d := json.NewDecoder(strings.NewReader(docs[0].Root.JSON()))
	d.UseNumber()
	var out map[string]any
	if err := d.Decode(&out); err != nil || out == nil {
		return nil, false
	}
	return out, true
}

// sectionOrder is how the fields of a scenario stand.
func sectionOrder() []string {
	return []string{"apiVersion", "kind", "id", "title", "tags", "target", "sample", "phases", "faults", "hypothesis", "stop", "limits", "search", "accept", "on_fail"}
}

// fieldOrder is how fields within a section stand; others follow by name.
func fieldOrder() []string {
	return []string{"id", "service", "routes", "match", "methods", "percent", "key", "baseline", "inject", "recover", "dist", "status", "at", "phase", "rate",
		"sli", "ratio", "amplification", "retries", "breaker", "flaps", "alert", "config", "burn_rate", "budget_spent", "cohort", "against", "margin",
		"op", "event", "expect", "over", "value", "mode", "windows", "for", "within", "window", "min_requests", "severity", "owner", "due"}
}

func yamlKeys(m map[string]any, order []string) []string {
	var keys []string
	for _, k := range order {
		if _, ok := m[k]; ok {
			keys = append(keys, k)
		}
	}
	var rest []string
	for k := range m {
		if !slices.Contains(order, k) {
			rest = append(rest, k)
		}
	}
	slices.Sort(rest)
	return append(keys, rest...)
}

var (
	plainWord   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*$`)
	plainAmount = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?(ms|s|m|h|d|B|kB|MB|KiB|MiB)$`)
	plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)
	reserved    = regexp.MustCompile(`(?i)^(true|false|yes|no|on|off|null|y|n)$`)
)

// yamlFlow writes a value on one line of YAML. What could be read as something else than
// a text is quoted; a quoted text of JSON is one of YAML.
func yamlFlow(v any) string {
	switch x := v.(type) {
	case map[string]any:
		var parts []string
		for _, k := range yamlKeys(x, fieldOrder()) {
			parts = append(parts, yamlFlow(k)+": "+yamlFlow(x[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		var parts []string
		for _, item := range x {
			parts = append(parts, yamlFlow(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		if plainWord.MatchString(x) && !reserved.MatchString(x) || plainAmount.MatchString(x) {
			return x
		}
		return yamlQuoted(x)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return `""` // values came from JSON: they go back
	}
	return string(text)
}

func yamlQuoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // people compare with "<="
	_ = e.Encode(s)        // into memory it cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

// yamlSection writes one field of a scenario.
func yamlSection(key string, v any) string {
	items := func(indent string, list []any) string {
		var b strings.Builder
		for _, item := range list {
			b.WriteString(indent + "- " + yamlFlow(item) + "\n")
		}
		return b.String()
	}
	switch x := v.(type) {
	case []any:
		if len(x) > 0 {
			if _, maps := x[0].(map[string]any); maps {
				return key + ":\n" + items("  ", x)
			}
		}
	case map[string]any:
		line := key + ": " + yamlFlow(x) + "\n"
		if key != "hypothesis" && len(line) <= 120 {
			return line
		}
		b := key + ":\n"
		for _, k := range yamlKeys(x, append([]string{"steady", "during", "after"}, fieldOrder()...)) {
			if list, ok := x[k].([]any); ok && key == "hypothesis" && len(list) > 0 {
				b += "  " + k + ":\n" + items("    ", list)
				continue
			}
			b += "  " + yamlFlow(k) + ": " + yamlFlow(x[k]) + "\n"
		}
		if len(x) > 0 {
			return b
		}
		return line
	case string:
		if key == "title" && plainTitle.MatchString(x) && !plainNumber.MatchString(x) && !reserved.MatchString(x) {
			return key + ": " + x + "\n"
		}
	}
	return key + ": " + yamlFlow(v) + "\n"
}

// plainTitle is a sentence without anything that YAML would read.
var plainTitle = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9 .()/-]*[A-Za-z0-9.)]$`)

var topKey = regexp.MustCompile(`^["']?([A-Za-z_][A-Za-z0-9_]*)["']?\s*:(\s|$)`)

// yamlPlace is where a field of the document stands, in lines [from, to).
type yamlPlace struct {
	key      string
	from, to int
}

// yamlPlaces finds the fields of a document written in blocks. Comments right before a
// field belong to it and are not part of its place.
func yamlPlaces(lines []string) []yamlPlace {
	var out []yamlPlace
	end := func(at int) { // the field before ends where its own lines do
		if len(out) == 0 {
			return
		}
		for at > out[len(out)-1].from+1 && (strings.TrimSpace(lines[at-1]) == "" || strings.HasPrefix(lines[at-1], "#")) {
			at--
		}
		out[len(out)-1].to = at
	}
	for i, line := range lines {
		if strings.HasPrefix(line, "---") || strings.HasPrefix(line, "...") {
			end(i)
			continue
		}
		if m := topKey.FindStringSubmatch(line); m != nil {
			end(i)
			out = append(out, yamlPlace{m[1], i, len(lines)})
		}
	}
	end(len(lines))
	return out
}

// yamlWrite puts a field into text; a nil value takes it out. Comments inside what is
// replaced move before it: nothing that was typed is lost.
func yamlWrite(text, key string, v any) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	all := yamlPlaces(lines)
	fresh := ""
	if v != nil {
		fresh = yamlSection(key, v)
	}
	if i := slices.IndexFunc(all, func(p yamlPlace) bool { return p.key == key }); i >= 0 {
		p := all[i]
		remarks := ""
		for _, line := range lines[p.from:p.to] {
			if c := yamlComment(line); c != "" {
				remarks += c + "\n"
			}
		}
		return strings.Join(lines[:p.from], "") + remarks + fresh + strings.Join(lines[p.to:], "")
	}
	if fresh == "" {
		return text
	}
	at, order := len(lines), sectionOrder()
	for _, p := range all {
		if slices.Index(order, p.key) > slices.Index(order, key) {
			at = p.from
			break
		}
	}
	if len(all) > 0 && at == len(lines) {
		at = all[len(all)-1].to
	}
	return strings.Join(lines[:at], "") + fresh + strings.Join(lines[at:], "")
}

// yamlComment is the remark that stands in a line; "": there is none.
func yamlComment(line string) string {
	var quote rune
	before := ' '
	for i, c := range line {
		switch {
		case quote != 0:
			if c == quote && !(c == '"' && before == '\\') {
				quote = 0
			}
		case c == '"' || c == '\'' && (before == ' ' || before == '{' || before == '[' || before == ','):
			quote = c
		case c == '#' && (before == ' ' || before == '\t'):
			return strings.TrimRight(line[i:], "\r\n ")
		}
		before = c
	}
	return ""
}

// yamlWhole writes a document anew, where its fields do not stand in blocks.
func yamlWhole(t map[string]any) string {
	var b strings.Builder
	for _, k := range yamlKeys(t, sectionOrder()) {
		b.WriteString(yamlSection(k, t[k]))
	}
	return b.String()
}

// inBlocks reports whether every field of t has a place of its own in text.
func inBlocks(text string, t map[string]any) bool {
	all := yamlPlaces(strings.SplitAfter(text, "\n"))
	for k := range t {
		if !slices.ContainsFunc(all, func(p yamlPlace) bool { return p.key == k }) {
			return false
		}
	}
	return true
}
