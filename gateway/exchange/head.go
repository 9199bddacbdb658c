package exchange

import "strings"

// Field is one line of a head. The strings may lie over a connection's buffer:
// they are valid until the Exchange ends, and whoever keeps one clones it.
type Field struct{ Name, Value string }

// Head is a list of fields in the order they came, duplicates kept. Names are
// compared without regard to ASCII case (RFC 9110 section 5.1).
type Head struct{ fields []Field }

// Len returns the number of fields.
func (h *Head) Len() int { return len(h.fields) }

// Fields returns the list itself, to be read only.
func (h *Head) Fields() []Field { return h.fields }

// Get returns the first value of name, or "".
func (h *Head) Get(name string) string {
	v, _ := h.Lookup(name)
	return v
}

// Lookup returns the first value of name and whether there is one.
func (h *Head) Lookup(name string) (string, bool) {
	for i := range h.fields {
		if equalFold(h.fields[i].Name, name) {
			return h.fields[i].Value, true
		}
	}
	return "", false
}

// Has reports whether some field is called name.
func (h *Head) Has(name string) bool {
	_, ok := h.Lookup(name)
	return ok
}

// Add appends a field.
func (h *Head) Add(name, value string) { h.fields = append(h.fields, Field{name, value}) }

// Set replaces the first field called name and removes the others.
func (h *Head) Set(name, value string) {
	for i := range h.fields {
		if equalFold(h.fields[i].Name, name) {
			h.fields[i].Value = value
			h.cut(name, i+1)
			return
		}
	}
	h.Add(name, value)
}

// Del removes every field called name.
func (h *Head) Del(name string) { h.cut(name, 0) }

// Keep removes the fields for which keep is false.
func (h *Head) Keep(keep func(Field) bool) {
	out := h.fields[:0]
	for _, f := range h.fields {
		if keep(f) {
			out = append(out, f)
		}
	}
	clear(h.fields[len(out):])
	h.fields = out
}

// Reset empties the list and keeps its memory.
func (h *Head) Reset() {
	clear(h.fields)
	h.fields = h.fields[:0]
}

// CopyFrom makes h an independent list of the same strings.
func (h *Head) CopyFrom(from *Head) { h.fields = append(h.fields[:0], from.fields...) }

func (h *Head) cut(name string, from int) {
	out := h.fields[:from]
	for _, f := range h.fields[from:] {
		if !equalFold(f.Name, name) {
			out = append(out, f)
		}
	}
	clear(h.fields[len(out):])
	h.fields = out
}

// equalFold is strings.EqualFold for names that nearly always differ in length
// or are equal as they stand.
func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	return a == b || strings.EqualFold(a, b)
}
