package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"breakwater/internal/conf"
)

// Change is one effective value that two configurations have otherwise. "" is
// absent.
type Change struct {
	Path string `json:"path"`
	Was  string `json:"was"`
	Now  string `json:"now"`
}

// Changes lists what now has otherwise than was, by path. A nil engine has
// nothing.
func Changes(was, now *Engine) []Change {
	a, b := was.values(), now.values()
	paths := maps.Clone(a)
	maps.Copy(paths, b)
	var out []Change
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		if a[p] != b[p] {
			out = append(out, Change{p, a[p], b[p]})
		}
	}
	return out
}

// values are the effective values by path, each as people write it.
func (e *Engine) values() map[string]string {
	out := map[string]string{}
	if e == nil {
		return out
	}
	cfg := *e.cfg
	cfg.Revision, cfg.Hash = "", "" // they say that something differs, not what
	flatten(reflect.ValueOf(cfg), "", out)
	return out
}

// flatten writes what v holds under path. Members of a list stand by their name,
// so that one more of them moves no other.
func flatten(v reflect.Value, path string, out map[string]string) {
	switch {
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			flatten(v.Elem(), path, out)
		}
		return
	case v.Type() == reflect.TypeFor[time.Duration]():
		if v.Int() != 0 {
			out[path] = conf.FormatDuration(time.Duration(v.Int()))
		}
		return
	}
	if text, ok := textOf(v); ok {
		if text != "" {
			out[path] = text
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous && name == "" {
				flatten(v.Field(i), path, out)
				continue
			}
			flatten(v.Field(i), strings.TrimPrefix(path+"."+cmp.Or(name, f.Name), "."), out)
		}
	case reflect.Slice:
		flattenList(v, path, out)
	case reflect.Map:
		for _, key := range v.MapKeys() {
			flatten(v.MapIndex(key), path+"["+fmt.Sprint(key)+"]", out)
		}
	default:
		if !v.IsZero() {
			out[path] = fmt.Sprint(v)
		}
	}
}

func flattenList(v reflect.Value, path string, out map[string]string) {
	if v.Len() == 0 {
		return
	}
	if k := v.Type().Elem().Kind(); k != reflect.Struct && k != reflect.Pointer {
		text, err := json.Marshal(v.Interface()) // a list of words or numbers is one value
		if err == nil {
			out[path] = string(text)
		}
		return
	}
	for i := range v.Len() {
		at := strconv.Itoa(i)
		if item := reflect.Indirect(v.Index(i)); item.Kind() == reflect.Struct {
			for _, by := range []string{"Name", "Address", "Upstream"} {
				if f := item.FieldByName(by); f.IsValid() && f.Kind() == reflect.String && f.String() != "" {
					at = f.String()
					break
				}
			}
		}
		here := path + "[" + at + "]"
		before := len(out)
		flatten(v.Index(i), here, out)
		if len(out) == before { // all its values are zero, and it is there all the same
			out[here] = "yes"
		}
	}
}

// textOf is the text of what writes itself: prefixes of networks, time windows.
func textOf(v reflect.Value) (string, bool) {
	if m, ok := v.Interface().(interface{ MarshalText() ([]byte, error) }); ok {
		text, err := m.MarshalText()
		return string(text), err == nil
	}
	return "", false
}
