// Package foreign reads experiments of other tools into scenarios, and writes ours
// for them. What of a document has no place here, or another meaning, is said line
// by line; nothing of it is ever run.
package foreign

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"breakwater/injector/scenario"
	"breakwater/internal/conf"
)

// Loss is one thing that a document says and a scenario does not, or not the same.
type Loss struct {
	Where string // path in the document
	Text  string
	// Dropped: it is not carried at all; else it is carried as something else.
	Dropped bool
}

func (l Loss) String() string {
	word := "changed"
	if l.Dropped {
		word = "not carried"
	}
	return fmt.Sprintf("%s: %s: %s", l.Where, word, l.Text)
}

// Imported are scenarios as documents, and what was lost on the way.
type Imported struct {
	Texts  []string
	Losses []Loss
}

// Options say what a document cannot.
type Options struct {
	// Service is the target where a document names none that could be one.
	Service string
	// Baseline, Inject and Recover are the phases where it says nothing; 0: a minute.
	Baseline, Inject, Recover time.Duration
}

// draft is a scenario on its way to a document.
type draft struct {
	id, title, service string
	description        string
	tags               []string
	percent            int64 // ppm
	key                string
	faults             []string // as flow maps, without their ids
	kinds              []string
	steady, during     []string // what is expected, as flow maps without their ids
	after              []string
	inject             time.Duration
	where              string
}

// reader gathers what a document gives.
type reader struct {
	opt    Options
	drafts []*draft
	losses []Loss
}

func (r *reader) lose(where, format string, args ...any) {
	r.losses = append(r.losses, Loss{where, fmt.Sprintf(format, args...), true})
}

func (r *reader) change(where, format string, args ...any) {
	r.losses = append(r.losses, Loss{where, fmt.Sprintf(format, args...), false})
}

// of is the draft for faults of one service that hit the same share: a scenario has
// one target and one sample.
func (r *reader) of(service string, percent int64, key, where string) *draft {
	for _, d := range r.drafts {
		if d.service == service && d.percent == percent && d.key == key {
			return d
		}
	}
	d := &draft{service: service, percent: percent, key: key, where: where}
	r.drafts = append(r.drafts, d)
	return d
}

func (d *draft) add(kind, fault string) {
	d.faults, d.kinds = append(d.faults, fault), append(d.kinds, kind)
}

var unnameable = regexp.MustCompile(`[^a-z0-9._-]+`)

// nameOf makes a name that documents may refer to of any text, or "".
func nameOf(text string) string {
	name := strings.Trim(unnameable.ReplaceAllString(strings.ToLower(text), "-"), "-._")
	return strings.Trim(name[:min(len(name), 48)], "-._")
}

// quote writes text as YAML reads it back; JSON's strings are YAML's.
func quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic("foreign: a string did not marshal: " + err.Error())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// plain is text for a comment: what YAML takes for a line break would end it, and
// what follows would be a field.
func plain(text string) string {
	return strings.Join(strings.Fields(strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return ' '
	}, text)), " ")
}

func share(ppm int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%04d", ppm/10_000, ppm%10_000), "0"), ".") + "%"
}

// text is d as a document.
func (d *draft) text(opt Options) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	or := func(a, b time.Duration) string {
		if a <= 0 {
			a = b
		}
		return conf.FormatDuration(a)
	}
	if line := plain(d.description); line != "" {
		say("# %s", line)
	}
	say("apiVersion: breakwater/v1\nkind: Scenario\nid: %s\ntitle: %s", d.id, quote(d.title))
	if len(d.tags) > 0 {
		quoted := make([]string, len(d.tags))
		for i, t := range d.tags {
			quoted[i] = quote(t)
		}
		say("tags: [%s]", strings.Join(quoted, ", "))
	}
	say("target: {service: %s}\nsample: {percent: %q, key: %s}", d.service, share(d.percent), d.key)
	inject := d.inject
	if inject <= 0 {
		inject = opt.Inject
	}
	say("phases: {baseline: %s, inject: %s, recover: %s}", or(opt.Baseline, time.Minute), or(inject, time.Minute), or(opt.Recover, time.Minute))
	say("faults:")
	for i, f := range d.faults {
		say("  - {id: %s-%d, %s}", d.kinds[i], i+1, f)
	}
	say("hypothesis:")
	for _, phase := range []struct {
		name, short string
		limits      []string
	}{{"steady", "s", d.steady}, {"during", "d", d.during}, {"after", "a", d.after}} {
		if len(phase.limits) == 0 {
			continue
		}
		say("  %s:", phase.name)
		for i, limit := range phase.limits {
			say("    - {id: %s%d, %s}", phase.short, i+1, limit)
		}
	}
	say("stop:\n  - {sli: %s.error_rate, op: \">\", value: \"20%%\", for: 30s}\n  - {budget_spent: \"5%%\"}", d.service)
	return b.String()
}

// done writes the drafts. That a scenario reads is checked here: what is handed out
// is never a document that nobody takes.
func (r *reader) done(base, title string) (Imported, error) {
	out := Imported{Losses: r.losses}
	for i, d := range r.drafts {
		d.id = base
		if i > 0 {
			d.id = fmt.Sprintf("%s-%d", base, i+1)
		}
		if d.title == "" {
			d.title = title
		}
		if len(d.steady)+len(d.during)+len(d.after) == 0 {
			expect := `sli: ` + d.service + `.success, op: ">=", value: "99%"`
			d.steady, d.during, d.after = []string{expect}, []string{expect}, []string{expect}
			out.Losses = append(out.Losses, Loss{d.where, "it expects nothing that could be judged here; that 99% of the requests of " + d.service + " succeed is put in its place: make it what you mean", false})
		}
		if len(d.during) == 0 {
			out.Losses = append(out.Losses, Loss{d.where, "nothing is expected while the fault is on", false})
		}
		text := d.text(r.opt)
		if _, _, err := scenario.Parse(conf.File{Name: d.id, Data: []byte(text)}); err != nil {
			return Imported{}, fmt.Errorf("%s cannot be a scenario: %w", d.where, err)
		}
		out.Texts = append(out.Texts, text)
	}
	if len(out.Texts) == 0 {
		return out, fmt.Errorf("nothing in it can be a fault here")
	}
	return out, nil
}

// one is the only document of f, as whatever it is.
func one(f conf.File) (conf.Node, error) {
	var log conf.Log
	docs := conf.Split(f, &log)
	if err := log.Err(); err != nil {
		return conf.Node{}, err
	}
	if len(docs) != 1 {
		return conf.Node{}, fmt.Errorf("%s: must hold one document, got %d", f.Name, len(docs))
	}
	return docs[0].Root, nil
}

// fields are the pairs of a map of somebody else's, by name.
type fields map[string]conf.Node

func fieldsOf(n conf.Node) fields {
	out := fields{}
	if n.IsMap() {
		for _, e := range n.Entries() {
			out[e.Key] = e.Value
		}
	}
	return out
}

func (f fields) text(name string) string {
	if n, ok := f[name]; ok {
		return n.Text()
	}
	return ""
}

// rest loses every field that is not among known.
func (f fields) rest(r *reader, where string, known ...string) {
	var names []string
	for name := range f {
		if !slices.Contains(known, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		r.lose(join(where, name), "it has no place in a scenario")
	}
}

func join(where, name string) string { return strings.TrimPrefix(where+"."+name, ".") }
