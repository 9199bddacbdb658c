package web

import (
	"regexp"
	"slices"
	"strings"

	"breakwater/internal/conf"
)

// partsOf is the form of a draft, with mistakes at their fields.
func partsOf(d draft, mistakes conf.Mistakes) []EditPart {
	bad := map[string]string{}
	for _, m := range mistakes {
		name := fieldOf(m.Path)
		if m.IsWarning || name == "" {
			continue
		}
		if bad[name] != "" {
			bad[name] += "; "
		}
		bad[name] += m.Text
	}
	part := func(title, note string, names ...string) EditPart {
		p := EditPart{Title: title, Note: note}
		for _, f := range simpleFields() {
			if slices.ContainsFunc(names, func(n string) bool { return f.name == n || strings.HasPrefix(f.name, n+".") }) {
				p.Fields = append(p.Fields, editField(f.name, f.label, d.Form[f.name], f.placeholder, f.options, bad[f.name]))
			}
		}
		return p
	}
	rows := func(p EditPart, kind, add string, heads []string, lists map[string][]string) EditPart {
		i := slices.IndexFunc(rowKinds(), func(k rowKind) bool { return k.name == kind })
		k := rowKinds()[i]
		p.Wide, p.Heads, p.Add = true, heads, add
		n := countRows(d.Form, k)
		for i := range min(n+1, mostRows) {
			row := EditRow{Bad: bad[rowName(kind, i, "")]}
			if i < n {
				row.Remove = rowName(kind, i, "remove")
			}
			for j, f := range k.fields {
				name := rowName(kind, i, f)
				list := lists[f]
				if list != nil {
					list = append([]string{""}, list...)
				}
				row.Fields = append(row.Fields, editField(name, heads[j], d.Form[name], "", list, ""))
			}
			p.Rows = append(p.Rows, row)
		}
		return p
	}
	expects := map[string][]string{"what": expectKinds(), "op": expectOps()}
	heads := []string{phrase("Name"), phrase("What"), phrase("Of"), phrase("Must"), phrase("Limit"), phrase("Within"), phrase("Requests")}
	return []EditPart{
		part(phrase("Experiment"), "", "id", "title", "tags"),
		part(phrase("Target and share"), phrase("left empty: all of the service"), "target", "sample"),
		part(phrase("Phases"), phrase("how long each lasts"), "phases"),
		rows(EditPart{Title: phrase("Faults"), Note: phrase("what happens to a try that is hit")}, "fault", phrase("One more fault"), []string{phrase("Name"), phrase("What"), phrase("Amount"), phrase("Variant")},
			map[string][]string{"what": faultKinds(), "how": {"before_upstream", "after_upstream", "dirty", "clean"}}),
		rows(EditPart{Title: phrase("Expected before"), Note: phrase("or nothing is injected")}, "steady", phrase("One more"), heads, expects),
		rows(EditPart{Title: phrase("Expected meanwhile"), Note: phrase("whether users are protected")}, "during", phrase("One more"), heads, expects),
		rows(EditPart{Title: phrase("Expected after"), Note: phrase("whether all is well again")}, "after", phrase("One more"), heads, expects),
		rows(EditPart{Title: phrase("Ends early when"), Note: phrase("a fault without a brake is refused")}, "stop", phrase("One more brake"), []string{phrase("What"), phrase("Of"), phrase("Passes"), phrase("Limit"), phrase("For")},
			map[string][]string{"what": stopKinds(), "op": {">", ">=", "<", "<="}}),
		part(phrase("Guards"), phrase("beside the brakes"), "limits", "accept", "on_fail"),
	}
}

func editField(name, label, value, placeholder string, list []string, bad string) EditField {
	f := EditField{Name: name, Label: label, Value: value, Placeholder: placeholder, Bad: bad}
	if list != nil {
		f.Options = editOptions(list, value)
	}
	// A browser would send such a value back changed.
	f.Fixed = strings.ContainsAny(value, "\n\r") || len(value) > 300
	return f
}

var (
	faultPath = regexp.MustCompile(`^(faults|stop)\[(\d+)\]`)
	rowPath   = regexp.MustCompile(`^hypothesis\.(steady|during|after)\[(\d+)\]`)
)

// fieldOf is the field, or the row, that a path of the document stands in.
func fieldOf(path string) string {
	if m := faultPath.FindStringSubmatch(path); m != nil {
		return map[string]string{"faults": "fault", "stop": "stop"}[m[1]] + "." + m[2] + "."
	}
	if m := rowPath.FindStringSubmatch(path); m != nil {
		return m[1] + "." + m[2] + "."
	}
	for _, f := range simpleFields() {
		own := strings.Join(f.path, ".")
		if path == own || strings.HasPrefix(path, own+"[") {
			return f.name
		}
	}
	return ""
}
