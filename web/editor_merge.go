package web

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// draft is an experiment being written, as a text and as a form that say the same.
type draft struct {
	Text string
	// Base is the text that the form was made of. As long as the text cannot be read
	// it stays, so that what was changed in the form is not forgotten.
	Base   string
	Form   map[string]string
	Broken bool // the text cannot be read: the form stands as it was sent
	// Told says what was changed on both sides, where the text counts.
	Told []string
}

// draftOf is a text with its form.
func draftOf(text string) draft {
	d := draft{Text: text, Base: text, Form: map[string]string{}}
	t, ok := readTree(text)
	if d.Broken = !ok; ok {
		d.Form = formOf(t)
	}
	return d
}

// postedDraft is a draft as it comes back: what was changed in the form is written into
// the text, what was changed in the text shows in the form. Where both were changed,
// the text counts and it is told.
func (l lang) postedDraft(form url.Values) draft {
	lf := func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }
	text, base := lf(form.Get("yaml")), lf(form.Get("base"))
	sent := map[string]string{}
	for name := range form {
		if strings.Contains(name, ".") || isSimple(name) {
			sent[name] = strings.TrimSpace(form.Get(name))
		}
	}
	t, ok := readTree(text)
	if !ok {
		return draft{Text: text, Base: base, Form: sent, Broken: true}
	}
	was := map[string]string{}
	if b, ok := readTree(base); ok {
		was = formOf(b)
	}
	m := formMerge{lang: l, tree: t, now: formOf(t), was: was, sent: sent, dirty: map[string]bool{}}
	m.simple()
	for _, k := range rowKinds() {
		m.rows(k)
	}
	if len(m.dirty) > 0 {
		if !inBlocks(text, t) {
			text = yamlWhole(t)
		} else {
			for _, key := range sectionOrder() {
				if m.dirty[key] {
					text = yamlWrite(text, key, t[key])
				}
			}
		}
	}
	d := draftOf(text)
	d.Told = m.told
	return d
}

func isSimple(name string) bool {
	return slices.ContainsFunc(simpleFields(), func(f simpleField) bool { return f.name == name })
}

// formMerge brings a form back into a document.
type formMerge struct {
	tree           map[string]any
	now, was, sent map[string]string
	dirty          map[string]bool
	told           []string
	lang
}

func sameWord(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }

func (m *formMerge) simple() {
	for _, f := range simpleFields() {
		word, ok := m.sent[f.name]
		if !ok || sameWord(word, m.was[f.name]) || sameWord(word, m.now[f.name]) {
			continue
		}
		if !sameWord(m.now[f.name], m.was[f.name]) {
			m.told = append(m.told, m.say("%s: the text counts; the form said “%s”", m.word(f.label), word))
			continue
		}
		yamlPut(m.tree, f.path, f.value(word))
		m.dirty[f.path[0]] = true
	}
}

// rowOf are the fields of a row in a set of fields.
func (k rowKind) rowOf(form map[string]string, i int) (row map[string]string, filled bool) {
	row = map[string]string{}
	for _, f := range k.fields {
		if word := strings.TrimSpace(form[rowName(k.name, i, f)]); word != "" {
			row[f], filled = word, true
		}
	}
	return row, filled
}

// rows brings the rows of a list back. A row is one thing: whichever of its fields
// was changed, all of it is written.
func (m *formMerge) rows(k rowKind) {
	items := itemsOf(m.tree, k)
	moved := false // the text has other rows than the form was made of
	for i := range max(len(items), countRows(m.was, k)) {
		now, _ := k.rowOf(m.now, i)
		was, _ := k.rowOf(m.was, i)
		moved = moved || now["id"] != was["id"]
	}
	moved = moved || len(items) != countRows(m.was, k)
	changed := false
	var kept []any
	for i := range max(len(items), countRows(m.sent, k)) {
		was, _ := k.rowOf(m.was, i)
		now, _ := k.rowOf(m.now, i)
		sent, filled := k.rowOf(m.sent, i)
		gone := m.sent[rowName(k.name, i, "remove")] == "on"
		if !k.sentAt(m.sent, i) {
			sent, filled = was, len(was) > 0
		}
		for _, f := range k.fields { // what was not sent has no field in the form
			if _, ok := m.sent[rowName(k.name, i, f)]; !ok && was[f] != "" {
				sent[f] = was[f]
			}
		}
		touched := gone || !sameRow(sent, was)
		if touched && (moved || !sameRow(now, was)) && !sameRow(sent, now) {
			m.told = append(m.told, m.say("Row %s of %s: the text counts; the form said “%s”", strconv.Itoa(i+1), k.name, rowWords(k, sent)))
			touched = false
		}
		switch {
		case touched && (gone || !filled):
			changed = true
		case touched && i < len(items):
			k.apply(items[i], sent)
			kept, changed = append(kept, items[i]), true
		case touched:
			item := map[string]any{}
			k.apply(item, sent)
			kept, changed = append(kept, item), true
		case i < len(items):
			kept = append(kept, items[i])
		}
	}
	if changed {
		var list any
		if len(kept) > 0 {
			list = kept
		}
		yamlPut(m.tree, k.path, list)
		m.dirty[k.path[0]] = true
	}
}

func rowWords(k rowKind, row map[string]string) string {
	var words []string
	for _, f := range k.fields {
		if row[f] != "" {
			words = append(words, row[f])
		}
	}
	return strings.Join(words, " ")
}

func sameRow(a, b map[string]string) bool {
	for _, x := range []map[string]string{a, b} {
		for f := range x {
			if !sameWord(a[f], b[f]) {
				return false
			}
		}
	}
	return true
}

// sentAt reports whether a row came with the form at all.
func (k rowKind) sentAt(form map[string]string, i int) bool {
	return slices.ContainsFunc(append([]string{"remove"}, k.fields...), func(f string) bool { _, ok := form[rowName(k.name, i, f)]; return ok })
}

// mostRows bounds what a form may ask for.
const mostRows = 64

func countRows(form map[string]string, k rowKind) int {
	n := 0
	for i := range mostRows {
		if _, filled := k.rowOf(form, i); filled {
			n = i + 1
		}
	}
	return n
}
