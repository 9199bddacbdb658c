package web

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"breakwater/gateway/policy/fault"
)

// The form of the editor is a flat list of fields, each a part of the document. What
// the form has no field for stays in the document as it is.

// simpleField is one value of a scenario: path is where it stands.
type simpleField struct {
	name, label string
	path        []string
	list, text  bool // a list of words; a text even where it looks like a number
	placeholder string
	options     []string
}

func simpleFields() []simpleField {
	return []simpleField{
		{name: "id", label: phrase("Name"), path: []string{"id"}, text: true, placeholder: "coupon-late"},
		{name: "title", label: phrase("Title"), path: []string{"title"}, text: true, placeholder: phrase("Coupon answers late")},
		{name: "tags", label: phrase("Tags"), path: []string{"tags"}, list: true, placeholder: phrase("weekly, non-core")},
		{name: "target.service", label: phrase("Service"), path: []string{"target", "service"}, text: true},
		{name: "target.routes", label: phrase("Routes"), path: []string{"target", "routes"}, list: true, placeholder: "all"},
		{name: "target.methods", label: phrase("Methods"), path: []string{"target", "methods"}, list: true, placeholder: "all"},
		{name: "target.callers", label: phrase("Callers"), path: []string{"target", "callers"}, list: true, placeholder: "all"},
		{name: "target.tenants", label: phrase("Tenants"), path: []string{"target", "tenants"}, list: true, placeholder: "all"},
		{name: "sample.percent", label: phrase("Share that is hit"), path: []string{"sample", "percent"}, placeholder: "5%"},
		{name: "sample.key", label: phrase("Chosen by"), path: []string{"sample", "key"}, options: []string{"", fault.KeyAttempt, fault.KeyRequest, fault.KeyTrace, fault.KeyTenant, fault.KeyConnection}},
		{name: "sample.ramp", label: phrase("Grows over"), path: []string{"sample", "ramp"}, placeholder: phrase("at once")},
		{name: "phases.baseline", label: phrase("Baseline"), path: []string{"phases", "baseline"}, placeholder: "2m"},
		{name: "phases.inject", label: phrase("Inject"), path: []string{"phases", "inject"}, placeholder: "5m"},
		{name: "phases.recover", label: phrase("Recover"), path: []string{"phases", "recover"}, placeholder: "2m"},
		{name: "limits.max_affected_rps", label: phrase("At most tries hit a second"), path: []string{"limits", "max_affected_rps"}, placeholder: phrase("no limit")},
		{name: "limits.max_tenants", label: phrase("At most tenants hit"), path: []string{"limits", "max_tenants"}, placeholder: phrase("no limit")},
		{name: "accept", label: phrase("Accepted refusals"), path: []string{"accept"}, list: true, placeholder: "none"},
		{name: "on_fail.severity", label: phrase("A failure is"), path: []string{"on_fail", "finding", "severity"}, options: []string{"", "low", "medium", "high", "critical"}},
		{name: "on_fail.owner", label: phrase("Owner"), path: []string{"on_fail", "finding", "owner"}, text: true, placeholder: "team-coupon"},
		{name: "on_fail.due", label: phrase("Due in"), path: []string{"on_fail", "finding", "due"}, placeholder: "14d"},
	}
}

// rowKind is a list of a scenario as rows of a form.
type rowKind struct {
	name   string   // of its fields: fault.0.kind
	path   []string // where the list stands
	fields []string
	read   func(item map[string]any) map[string]string
	apply  func(item map[string]any, row map[string]string)
}

func rowKinds() []rowKind {
	expects := []string{"id", "what", "of", "op", "value", "within", "min"}
	return []rowKind{
		{"fault", []string{"faults"}, []string{"id", "what", "value", "how"}, readFault, applyFault},
		{"steady", []string{"hypothesis", "steady"}, expects, readExpect, applyExpect},
		{"during", []string{"hypothesis", "during"}, expects, readExpect, applyExpect},
		{"after", []string{"hypothesis", "after"}, expects, readExpect, applyExpect},
		{"stop", []string{"stop"}, []string{"what", "of", "op", "value", "span"}, readStop, applyStop},
	}
}

// yamlAt returns the value at a path.
func yamlAt(t map[string]any, path []string) any {
	var v any = t
	for _, k := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[k]
	}
	return v
}

// yamlPut sets the value at a path; nil takes it out, and what is empty then with it.
func yamlPut(t map[string]any, path []string, v any) {
	if len(path) == 1 {
		if v == nil {
			delete(t, path[0])
		} else {
			t[path[0]] = v
		}
		return
	}
	m, ok := t[path[0]].(map[string]any)
	if !ok {
		if v == nil {
			return
		}
		m = map[string]any{}
	}
	yamlPut(m, path[1:], v)
	if t[path[0]] = m; len(m) == 0 {
		delete(t, path[0])
	}
}

// formWord is a value as a field of the form has it.
func formWord(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	case json.Number:
		return x.String()
	case []any:
		var words []string
		for _, item := range x {
			words = append(words, formWord(item))
		}
		return strings.Join(words, ", ")
	case bool:
		return strconv.FormatBool(x)
	}
	return yamlFlow(v)
}

// formValue is a field of the form as a value: a number where it looks like one.
func formValue(word string) any {
	if word == "" {
		return nil
	}
	if plainNumber.MatchString(word) {
		return json.Number(word)
	}
	return word
}

func (f simpleField) value(word string) any {
	word = strings.TrimSpace(word)
	switch {
	case word == "":
		return nil
	case f.list:
		var out []any
		for w := range strings.SplitSeq(word, ",") {
			if w = strings.TrimSpace(w); w != "" {
				out = append(out, w)
			}
		}
		return out
	case f.text:
		return word
	}
	return formValue(word)
}

// formOf reads the fields of a document.
func formOf(t map[string]any) map[string]string {
	out := map[string]string{}
	for _, f := range simpleFields() {
		out[f.name] = formWord(yamlAt(t, f.path))
	}
	for _, k := range rowKinds() {
		for i, item := range itemsOf(t, k) {
			for field, word := range k.read(item) {
				out[rowName(k.name, i, field)] = word
			}
		}
	}
	return out
}

func rowName(kind string, i int, field string) string { return fmt.Sprintf("%s.%d.%s", kind, i, field) }

// itemsOf are the rows of a list; what is no map is an empty one, told by the parser.
func itemsOf(t map[string]any, k rowKind) []map[string]any {
	list, _ := yamlAt(t, k.path).([]any)
	var out []map[string]any
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			m = map[string]any{}
		}
		out = append(out, m)
	}
	return out
}

func faultKinds() []string {
	return []string{string(fault.Latency), string(fault.Error), string(fault.GRPC), string(fault.Drop), string(fault.Refuse), string(fault.Reset), string(fault.Blackhole),
		string(fault.Truncate), string(fault.Drip), string(fault.Corrupt), string(fault.Body), string(fault.Header), string(fault.Duplicate)}
}

// faultValue is the one amount by which each kind is mostly set, faultHow its variant.
func faultValue(kind string) string {
	return map[string]string{"latency": "value", "error": "status", "grpc": "status", "truncate": "at", "drip": "rate", "corrupt": "percent", "body": "value"}[kind]
}

func faultHow(kind string) string {
	return map[string]string{"drop": "phase", "reset": "phase", "truncate": "mode"}[kind]
}

func kindIn(item map[string]any, kinds []string) string {
	for _, k := range kinds {
		if _, ok := item[k]; ok {
			return k
		}
	}
	return ""
}

func readFault(item map[string]any) map[string]string {
	kind := kindIn(item, faultKinds())
	body, _ := item[kind].(map[string]any)
	out := map[string]string{"id": formWord(item["id"]), "what": kind}
	if k := faultValue(kind); k != "" {
		out["value"] = formWord(body[k])
	}
	if k := faultHow(kind); k != "" {
		out["how"] = formWord(body[k])
	}
	return out
}

func applyFault(item map[string]any, row map[string]string) {
	was := readFault(item)
	yamlPut(item, []string{"id"}, textOr(row["id"]))
	kind := row["what"]
	if kind != was["what"] {
		delete(item, was["what"])
		was = map[string]string{}
	}
	if kind == "" {
		return
	}
	body, ok := item[kind].(map[string]any)
	if !ok {
		body = map[string]any{}
		if kind == "latency" {
			body["dist"] = "fixed"
		}
	}
	if k := faultValue(kind); k != "" && row["value"] != was["value"] {
		yamlPut(body, []string{k}, formValue(row["value"]))
		if kind == "latency" && row["value"] != "" && body["dist"] == nil {
			body["dist"] = "fixed"
		}
	}
	if k := faultHow(kind); k != "" && row["how"] != was["how"] {
		yamlPut(body, []string{k}, textOr(row["how"]))
	}
	item[kind] = body
}

func textOr(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func sliMeasures() []string { return []string{"success", "error_rate", "p50", "p90", "p95", "p99"} }

func expectKinds() []string {
	return append(sliMeasures(), "amplification", "retries", "breaker", "flaps", "ratio", "alert", "config")
}

func expectOps() []string {
	return []string{"<=", "<", ">=", ">", "opened", "closed", "half_open", "stays_closed", "silent", "firing", "against baseline", "against control"}
}

// sliOf splits order.error_rate.
func sliOf(v any) (of, measure string) {
	text := formWord(v)
	i := strings.LastIndexByte(text, '.')
	if i < 0 {
		return text, ""
	}
	return text[:i], text[i+1:]
}

func readExpect(item map[string]any) map[string]string {
	out := map[string]string{"id": formWord(item["id"]), "op": formWord(item["op"]), "value": formWord(item["value"]), "within": formWord(item["within"]), "min": formWord(item["min_requests"])}
	form := kindIn(item, []string{"sli", "ratio", "amplification", "retries", "breaker", "flaps", "alert", "config"})
	out["what"], out["of"] = form, formWord(item[form])
	switch form {
	case "sli":
		out["of"], out["what"] = sliOf(item["sli"])
	case "breaker":
		out["op"] = formWord(item["event"])
	case "alert":
		out["op"] = formWord(item["expect"])
	}
	if a := formWord(item["against"]); a != "" {
		out["op"], out["value"] = "against "+a, formWord(item["margin"])
	}
	return out
}

func applyExpect(item map[string]any, row map[string]string) {
	was := readExpect(item)
	if row["what"] != was["what"] {
		for _, k := range []string{"sli", "ratio", "amplification", "retries", "breaker", "flaps", "alert", "config", "event", "expect", "op", "value", "against", "margin"} {
			delete(item, k)
		}
	}
	set := func(key string, v any) { yamlPut(item, []string{key}, v) }
	set("id", textOr(row["id"]))
	against, compares := strings.CutPrefix(row["op"], "against ")
	switch what := row["what"]; {
	case what == "":
	case slices.Contains(sliMeasures(), what):
		set("sli", row["of"]+"."+what)
	default:
		set(what, textOr(row["of"]))
	}
	for _, k := range []string{"op", "value", "event", "expect", "against", "margin"} {
		delete(item, k)
	}
	switch {
	case row["what"] == "breaker":
		set("event", textOr(row["op"]))
	case row["what"] == "alert":
		set("expect", textOr(row["op"]))
	case row["what"] == "config":
	case compares:
		set("against", against)
		set("margin", formValue(row["value"]))
	default:
		set("op", textOr(row["op"]))
		set("value", formValue(row["value"]))
	}
	set("within", formValue(row["within"]))
	set("min_requests", formValue(row["min"]))
}

func stopKinds() []string {
	return []string{"error_rate", "success", "burn_rate", "amplification", "budget_spent"}
}

func readStop(item map[string]any) map[string]string {
	switch kindIn(item, []string{"burn_rate", "sli", "amplification", "budget_spent"}) {
	case "burn_rate":
		return map[string]string{"what": "burn_rate", "of": formWord(item["burn_rate"]), "value": formWord(item["over"]), "span": formWord(item["windows"])}
	case "sli":
		of, what := sliOf(item["sli"])
		return map[string]string{"what": what, "of": of, "op": formWord(item["op"]), "value": formWord(item["value"]), "span": formWord(item["for"])}
	case "amplification":
		return map[string]string{"what": "amplification", "of": formWord(item["amplification"]), "op": formWord(item["op"]), "value": formWord(item["value"]), "span": formWord(item["for"])}
	case "budget_spent":
		return map[string]string{"what": "budget_spent", "value": formWord(item["budget_spent"])}
	}
	return map[string]string{}
}

func applyStop(item map[string]any, row map[string]string) {
	set := func(key string, v any) { yamlPut(item, []string{key}, v) }
	for _, k := range []string{"burn_rate", "sli", "amplification", "budget_spent", "op", "value", "over", "windows", "for"} {
		delete(item, k)
	}
	switch what := row["what"]; what {
	case "burn_rate":
		set("burn_rate", textOr(row["of"]))
		set("over", formValue(row["value"]))
		set("windows", simpleField{list: true}.value(row["span"]))
	case "budget_spent":
		set("budget_spent", formValue(row["value"]))
	case "":
	default:
		set(map[bool]string{true: "amplification", false: "sli"}[what == "amplification"], map[bool]string{true: row["of"], false: row["of"] + "." + what}[what == "amplification"])
		set("op", textOr(row["op"]))
		set("value", formValue(row["value"]))
		set("for", formValue(row["span"]))
	}
}
