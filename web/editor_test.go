package web

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"breakwater/injector"
)

// filledIn is what a browser would send of a draft: text, base and every field.
func filledIn(d draft, changes map[string]string) url.Values {
	form := url.Values{"yaml": {strings.ReplaceAll(d.Text, "\n", "\r\n")}, "base": {strings.ReplaceAll(d.Base, "\n", "\r\n")}}
	for _, p := range partsOf(d, nil) {
		fields := p.Fields
		for _, r := range p.Rows {
			fields = append(fields, r.Fields...)
		}
		for _, f := range fields {
			if !f.Fixed {
				form.Set(f.Name, f.Value)
			}
		}
	}
	for name, value := range changes {
		form.Set(name, strings.ReplaceAll(value, "\n", "\r\n"))
	}
	return form
}

// What nobody touched comes back as it was, byte for byte: of every document that is
// known here.
func TestAFormThatNobodyTouchedChangesNothing(t *testing.T) {
	texts := map[string]string{"points-slow": pointsSlow, "incident": fromIncident, "starter": starter("shop", 50_000).text()}
	files, err := filepath.Glob("../scenarios/*.yaml")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		texts[f] = string(text)
	}
	for name, text := range texts {
		d := draftOf(text)
		if d.Broken {
			t.Errorf("%s cannot be read", name)
		}
		if _, err := injector.ParseText(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := (lang{}).postedDraft(filledIn(d, nil)); got.Text != text || len(got.Told) > 0 {
			t.Errorf("%s came back as\n%s\n%q", name, got.Text, got.Told)
		}
		// Written anew from its fields, each section says the same.
		tree, _ := readTree(text)
		again := text
		for _, key := range sectionOrder() {
			again = yamlWrite(again, key, tree[key])
		}
		was, err := injector.ParseText(text)
		if err != nil {
			t.Fatal(err)
		}
		is, err := injector.ParseText(again)
		if err != nil {
			t.Errorf("%s, written anew: %v\n%s", name, err, again)
			continue
		}
		was.Text, is.Text, was.Line, is.Line = "", "", 0, 0
		if !reflect.DeepEqual(was, is) {
			t.Errorf("%s, written anew, says something else:\n%s", name, again)
		}
	}
}

func TestFormAndTextInStep(t *testing.T) {
	d := draftOf(pointsSlow)
	for _, tt := range []struct {
		name    string
		changes map[string]string
		want    []string // in the text
		not     []string
		form    map[string]string
		told    string
	}{
		{"a value of the form goes into the text, the rest stays", map[string]string{"sample.percent": "10%"},
			[]string{"sample: {percent: \"10%\", key: attempt, seed: auto}\n", "faults:\n  - {id: lat, latency: {dist: fixed, value: 5s}} # far beyond any timeout\n"}, []string{"60%"}, nil, ""},
		{"a value of the text shows in the form", map[string]string{"yaml": strings.Replace(pointsSlow, "60%", "15%", 1)}, []string{"15%"}, nil, map[string]string{"sample.percent": "15%"}, ""},
		{"both may change, at different places", map[string]string{"yaml": strings.Replace(pointsSlow, "60%", "15%", 1), "title": "Points, later"}, []string{"15%", "title: \"Points, later\"\n"}, nil, map[string]string{"sample.percent": "15%", "title": "Points, later"}, ""},
		{"where both changed the same, the text counts and it is told", map[string]string{"yaml": strings.Replace(pointsSlow, "60%", "15%", 1), "sample.percent": "20%"}, []string{"15%"}, []string{"20%"}, nil, "Share that is hit: the text counts; the form said “20%”"},
		{"a remark within what is written anew moves before it", map[string]string{"fault.0.value": "3s"}, []string{"# far beyond any timeout\nfaults:\n  - {id: lat, latency: {dist: fixed, value: 3s}}\n"}, nil, nil, ""},
		{"another kind of fault", map[string]string{"fault.0.what": "error", "fault.0.value": "503"}, []string{"- {id: lat, error: {status: 503}}"}, []string{"latency"}, nil, ""},
		{"one more fault", map[string]string{"fault.1.id": "cut", "fault.1.what": "truncate", "fault.1.value": "50%", "fault.1.how": "dirty"}, []string{"- {id: cut, truncate: {at: \"50%\", mode: dirty}}"}, nil, map[string]string{"fault.1.how": "dirty"}, ""},
		{"one expectation less", map[string]string{"during.0.remove": "on"}, []string{"after:\n"}, []string{"d1", "during"}, nil, ""},
		{"one expectation more", map[string]string{"during.1.id": "d2", "during.1.what": "breaker", "during.1.of": "points", "during.1.op": "opened", "during.1.within": "20s"},
			[]string{"- {id: d2, breaker: points, event: opened, within: 20s}"}, nil, nil, ""},
		{"another comparison", map[string]string{"during.0.op": "against baseline", "during.0.value": "1%"}, []string{"- {id: d1, sli: order.error_rate, against: baseline, margin: \"1%\"}"}, nil, nil, ""},
		{"a brake", map[string]string{"stop.0.value": "120", "stop.0.span": "1m, 10m"}, []string{"- {burn_rate: order, over: 120, windows: [1m, 10m]}"}, nil, nil, ""},
		{"what had no section gets one, in its place", map[string]string{"limits.max_tenants": "3", "accept": "no_fallback, cost"}, []string{"  - {budget_spent: \"5%\"}\nlimits: {max_tenants: 3}\naccept: [no_fallback, cost]\n"}, nil, nil, ""},
		{"what is emptied goes", map[string]string{"target.routes": "", "tags": ""}, []string{"target: {service: points}\n"}, []string{"tags", "routes"}, nil, ""},
		{"a route may be named by what it takes", map[string]string{"target.routes": "POST /v1/orders, points-deduct"}, []string{`routes: ["POST /v1/orders", points-deduct]`}, nil, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := (lang{}).postedDraft(filledIn(d, tt.changes))
			for _, w := range tt.want {
				if !strings.Contains(got.Text, w) {
					t.Errorf("%q is not in\n%s", w, got.Text)
				}
			}
			for _, n := range tt.not {
				if strings.Contains(got.Text, n) {
					t.Errorf("%q is in\n%s", n, got.Text)
				}
			}
			for name, want := range tt.form {
				if got.Form[name] != want {
					t.Errorf("%s is %q, want %q", name, got.Form[name], want)
				}
			}
			if told := strings.Join(got.Told, "\n"); told != tt.told {
				t.Errorf("told %q, want %q", told, tt.told)
			}
			if got.Base != got.Text {
				t.Error("the form is not made of the text")
			}
		})
	}
}

// A text that cannot be read keeps what was changed in the form until it can.
func TestNothingTypedIsLost(t *testing.T) {
	d := draftOf(pointsSlow)
	broken := strings.Replace(pointsSlow, "percent: \"60%\",", "percent: \"60%,", 1)
	got := (lang{}).postedDraft(filledIn(d, map[string]string{"yaml": broken, "title": "Changed meanwhile"}))
	if !got.Broken || got.Text != broken || got.Base != pointsSlow || got.Form["title"] != "Changed meanwhile" {
		t.Fatalf("%+v", got)
	}
	mended := filledIn(got, map[string]string{"yaml": pointsSlow})
	if again := (lang{}).postedDraft(mended); again.Broken || !strings.Contains(again.Text, "title: Changed meanwhile\n") {
		t.Errorf("the form's change is lost:\n%s", again.Text)
	}
	// A row of YAML that the form has no words for stays.
	odd := strings.Replace(pointsSlow, "value: 5s}}", "value: 5s}, pulse: {every: 30s, for: 4s}}", 1)
	if got := (lang{}).postedDraft(filledIn(draftOf(odd), map[string]string{"fault.0.value": "6s"})); !strings.Contains(got.Text, "latency: {dist: fixed, value: 6s}, pulse: {for: 4s, every: 30s}}") {
		t.Errorf("the pulse is gone:\n%s", got.Text)
	}
	long := strings.Replace(pointsSlow, "latency: {dist: fixed, value: 5s}", `body: {value: "one\ntwo"}`, 1)
	if got := (lang{}).postedDraft(filledIn(draftOf(long), map[string]string{"fault.0.id": "other"})); !strings.Contains(got.Text, `- {id: other, body: {value: "one\ntwo"}}`) {
		t.Errorf("the body is another:\n%s", got.Text)
	}
}

func TestEditorPage(t *testing.T) {
	h := shop(noon)
	handler := h.server(t).Handler()
	_, _, body := get(t, handler, "/experiments/new?from=points-slow")
	for _, w := range []string{"A copy of points-slow", "id: points-slow", `value="points-deduct"`, "would be refused", "no_fallback", "cost", "To start a run takes an operator"} {
		if !strings.Contains(body, w) {
			t.Errorf("%q is not on the page", w)
		}
	}
	_, _, body = get(t, handler, "/experiments/new?service=catalog&from=none")
	for _, w := range []string{"There is no scenario none", "first-drill-catalog", "could start"} {
		if !strings.Contains(body, w) {
			t.Errorf("%q is not on the page", w)
		}
	}
	bad := strings.Replace(strings.Replace(pointsSlow, `"60%"`, "60", 1), "tags:", "tagz:", 1)
	status, _, body := sends(t, handler, "/experiments/check", filledIn(draftOf(bad), map[string]string{"title": "<i>&amp;"}))
	for _, w := range []string{"<b>5:1</b> tagz", "did you mean tags?", "<b>7:19</b> sample.percent", `title: &#34;&lt;i&gt;&amp;amp;&#34;`, `class="field bad"`, "No preflight yet"} {
		if !strings.Contains(body, w) {
			t.Errorf("%q is not on the page", w)
		}
	}
	if status != 200 {
		t.Errorf("status %d", status)
	}
	_, _, body = sends(t, handler, "/experiments/check", filledIn(draftOf(pointsSlow), map[string]string{"do": "dry"}))
	if !strings.Contains(body, "Dry run at 14:27:12: nothing was started.") || len(h.stopped) != 0 {
		t.Error("a dry run does not say so")
	}
}

func TestStartFromTheEditor(t *testing.T) {
	h := shop(noon)
	handler := h.server(t).Handler()
	form := filledIn(draftOf(pointsSlow), map[string]string{"title": "Mine"})
	if status, _, body := sends(t, handler, "/experiments/start", form); status != 403 || !strings.Contains(body, "title: Mine") || len(h.stopped) != 0 {
		t.Errorf("by who may only read: %d, and what was typed must stay", status)
	}
	h.mayLift = true
	if status, to, _ := sends(t, handler, "/experiments/start", form); status != http.StatusSeeOther || to != "/runs/r-1287" {
		t.Errorf("%d to %s", status, to)
	}
	if len(h.stopped) != 1 || !strings.HasPrefix(h.stopped[0], "start application/yaml apiVersion") || !strings.Contains(h.stopped[0], "title: Mine\n") {
		t.Errorf("asked %q", h.stopped)
	}
	for name, change := range map[string]map[string]string{
		"frozen":                      {"title": "refuse me"},
		"has mistakes":                {"yaml": strings.Replace(pointsSlow, "60%", "160%", 1)},
		"were both changed":           {"yaml": strings.Replace(pointsSlow, "60%", "6%", 1), "sample.percent": "7%"},
		"cannot be read, so the form": {"yaml": pointsSlow + "\n{", "title": "kept all the same"},
	} {
		status, _, body := sends(t, handler, "/experiments/start", filledIn(draftOf(pointsSlow), change))
		if status < 400 || !strings.Contains(body, name) {
			t.Errorf("%s: %d", name, status)
		}
		if title := change["title"]; title != "" && !strings.Contains(body, title) {
			t.Errorf("%s: what was typed is lost", name)
		}
	}
	if len(h.stopped) != 1 {
		t.Errorf("asked %q", h.stopped)
	}
}

// Whatever is sent, the answer is a draft whose text is not lost: it is that of the
// text, or one that a reader can read.
func FuzzDraft(f *testing.F) {
	f.Add(pointsSlow, "sample.percent", "10%", "fault.0.value", "\x00")
	f.Add("a: [", "during.63.id", "x", "stop.0.remove", "on")
	f.Add("{kind: Scenario, id: x}", "title", "# no: remark", "tags", ", ,")
	f.Add("id: x # y\nfaults:\n  - 3\n", "fault.0.id", "y", "accept", "a b")
	f.Fuzz(func(t *testing.T, text, name, value, name2, value2 string) {
		text = strings.ReplaceAll(text, "\r", "")
		got := (lang{}).postedDraft(url.Values{"yaml": {text}, "base": {text}, name: {value}, name2: {value2}})
		if name == "yaml" || name2 == "yaml" || name == "base" || name2 == "base" {
			return
		}
		if got.Broken {
			if _, ok := readTree(text); ok {
				t.Fatalf("%q became unreadable by %q=%q, %q=%q:\n%s", text, name, value, name2, value2, got.Text)
			}
			if got.Text != text {
				t.Fatalf("%q was changed to %q", text, got.Text)
			}
		}
	})
}
