package freeze

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"breakwater/internal/conf"
	"breakwater/slo"
)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

const document = `
apiVersion: breakwater/v1
kind: FreezePolicy
name: shop
services: [order]
environments: [prod]
dependants: observed
levels: {warn: 50%, emergency: 90%, emergency_leave: 60%}
thaw: {left: 5%, hold: 3s, min_freeze: 5s}
coverage: 80%
passes:
  - {kind: rollback, proof: [history, label]}
on_unknown:
  - {environments: [prod], answer: deny, except: [rollback]}
  - {answer: allow}
stale: 30s
valid: 10s
fallback: 5m
dry_run: true
`

func parse(text string) ([]Policy, error) {
	var log conf.Log
	p := Parse([]conf.File{{Name: "f.yaml", Data: []byte(text)}}, &log)
	return p, log.Err()
}

func TestDocument(t *testing.T) {
	got, err := parse(document)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	want := Policy{Name: "shop", Services: []string{"order"}, Envs: []string{"prod"}, Observed: true,
		Levels: slo.Policy{WarnPPM: 500_000, WarnLeavePPM: 400_000, EmergencyPPM: 900_000, EmergencyLeavePPM: 600_000,
			ThawPPM: 50_000, Hold: 3 * time.Second, MinFreeze: 5 * time.Second, CoveragePPM: 800_000},
		Passes:    []Pass{{Rollback, []Proof{History, Label}}},
		OnUnknown: []Settle{{Envs: []string{"prod"}, Except: []Kind{Rollback}}, {Allow: true}},
		Stale:     30 * time.Second, Valid: 10 * time.Second, Fallback: 5 * time.Minute, DryRun: true}
	a, _ := json.Marshal(got[0])
	b, _ := json.Marshal(want)
	if string(a) != string(b) {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
	if got[0].Revision() == Default().Revision() || got[0].Revision() != want.Revision() {
		t.Error("the revision does not follow what the document says")
	}
	plain, err := parse("apiVersion: breakwater/v1\nkind: FreezePolicy\nname: plain\n")
	def := Default()
	def.Name = "plain"
	if err != nil || len(plain) != 1 || plain[0].Revision() != def.Revision() {
		t.Errorf("what is left out is not as by default: %+v, %v", plain, err)
	}
}

func TestMistakes(t *testing.T) {
	head := "apiVersion: breakwater/v1\nkind: FreezePolicy\nname: a\n"
	for text, want := range map[string]string{
		head + "levels: {warn: 40%, warn_leave: 40%}":                                   "f.yaml:4:33: levels.warn_leave: must be left below where it is entered",
		head + "levels: {warn: 90%}":                                                    "must have emergency above warn",
		head + "passes: [{kind: party, proof: [declared]}]":                             "must be feature, config",
		head + "passes: [{kind: scale, proof: []}]":                                     "must name at least one",
		head + "passes: [{kind: scale, proof: [label]}, {kind: scale, proof: [label]}]": "must stand once, got scale again",
		head + "measures: [{from: normal, deploys: {at_most: 1}, experiments: refuse}]": "must be warn, emergency or frozen beside",
		head + "measures: [{from: warn, deploys: {}}]":                                  "deploys.at_most",
		head + "measures: [{from: warn, deploys: {at_most: 0}}]":                        "must be 1 to 1000",
		head + "measures: [{from: warn, deploys: {at_most: 1, over: town}}]":            "must be service or policy",
		head + "measures: [{from: warn, deploys: {at_most: 1, lasts: 5s}}]":             "must be 1m",
		head + "services: []":                    "must name some",
		head + "dry-run: true":                   "dry-run",
		head + "on_unknown: [{answer: perhaps}]": "must be allow or deny",
		head + "thaw: {hold: 60}":                "must be a span",
		head + "---\n" + head:                    "must have a name of its own, got a again",
		head + "---\n" + strings.Replace(head, "name: a", "name: b", 1): "must not rule what a rules as closely",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot %v, want %q", text, err, want)
		}
	}
}

func TestTheClosestPolicyRules(t *testing.T) {
	all := []Policy{{Name: "all"}, {Name: "prod", Envs: []string{"prod"}}, {Name: "order", Services: []string{"order"}}, {Name: "both", Services: []string{"order"}, Envs: []string{"prod"}}}
	for want, at := range map[string][2]string{"all": {"points", "test"}, "prod": {"points", "prod"}, "order": {"order", "test"}, "both": {"order", "prod"}} {
		if got := For(all, at[0], at[1]).Name; got != want {
			t.Errorf("%v is ruled by %q, want %q", at, got, want)
		}
	}
	if got := For(all[1:], "points", "test"); got.Revision() != Default().Revision() {
		t.Errorf("without a policy: %+v", got)
	}
}

func TestOverrideIsAskedForInFull(t *testing.T) {
	good := Override{Service: "order", Ref: "sha", Reason: "customers cannot pay", Ticket: "INC-7", AskedBy: "ada", ExpiresAt: noon.Add(24 * time.Hour), MaxUses: 2}
	if err := good.Check(noon); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Override){
		"no ref":               func(o *Override) { o.Ref = " " },
		"no reason":            func(o *Override) { o.Reason = "   now!    " },
		"no ticket":            func(o *Override) { o.Ticket = "" },
		"a second too long":    func(o *Override) { o.ExpiresAt = o.ExpiresAt.Add(time.Second) },
		"over before it began": func(o *Override) { o.ExpiresAt = noon },
		"no uses":              func(o *Override) { o.MaxUses = 0 },
		"too many uses":        func(o *Override) { o.MaxUses = 21 },
		"nobody asks":          func(o *Override) { o.AskedBy = "" },
		"a line break":         func(o *Override) { o.Ticket = "INC\n7" },
	} {
		o := good
		change(&o)
		if o.Check(noon) == nil {
			t.Errorf("%s: is taken", name)
		}
	}
}

func TestSignatures(t *testing.T) {
	key, err := NewKey(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	type doc struct {
		B    json.Number `json:"b"`
		A    string      `json:"a"`
		Sig  *Signature  `json:"signature"`
		When time.Time   `json:"when"`
	}
	d := doc{B: "1.50", A: "x<y", When: noon}
	if d.Sig, err = key.Sign(d); err != nil {
		t.Fatal(err)
	}
	body, _ := json.Marshal(d)
	if err := Verify(body, key.Public()); err != nil {
		t.Error(err)
	}
	// Another order, other spaces, as a database gives it back: the same text.
	var m map[string]any
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	m["b"] = json.Number("1.50")
	other, _ := json.MarshalIndent(m, "", " ")
	if err := Verify(other, key.Public()); err != nil {
		t.Errorf("written otherwise: %v", err)
	}
	for name, text := range map[string]string{
		"altered":          strings.Replace(string(body), "x\\u003cy", "y", 1),
		"a member more":    strings.Replace(string(body), "{", `{"c":1,`, 1),
		"a key twice":      strings.Replace(string(body), "{", `{"a":"z",`, 1),
		"a key twice, big": strings.Replace(string(body), "{", `{"A":"z",`, 1),
		"no signature":     `{"a":"x<y"}`,
		"two values":       string(body) + "{}",
		"a list":           "[]",
		"nothing":          "",
	} {
		if Verify([]byte(text), key.Public()) == nil {
			t.Errorf("%s: it is believed", name)
		}
	}
}

// What is one JSON value without doubled keys to us can be read in one way only.
func FuzzSingle(f *testing.F) {
	f.Add([]byte(`{"a":1,"a":2}`))
	f.Add([]byte(`{"a":{"b":[1,{"c":null}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if Single(data) != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("%q is no JSON", data)
		}
		sane, _, err := canonical(data)
		if err != nil {
			return // not an object
		}
		again, _, err := canonical(sane)
		if err != nil || string(again) != string(sane) {
			t.Fatalf("%q became %q, %v", sane, again, err)
		}
	})
}

// A document of any shape is read or refused; what is read rules.
func FuzzParse(f *testing.F) {
	f.Add(document)
	f.Fuzz(func(t *testing.T, text string) {
		policies, err := parse(text)
		if err != nil {
			return
		}
		for _, p := range policies {
			if l := p.Levels; p.Name == "" || l.WarnLeavePPM >= l.WarnPPM || l.EmergencyLeavePPM >= l.EmergencyPPM || l.Hold <= 0 || p.Fallback <= 0 {
				t.Fatalf("%q was taken as %+v", text, p)
			}
		}
	})
}
