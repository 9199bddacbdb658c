package web

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed catalogue
var catalogueFiles embed.FS

// catalogue is one language: what stands for each English text.
type catalogue struct {
	tag, name string
	text      map[string]string // by keyOf the English text
	from      map[string]string // key -> file:line, for messages
	told      []telling         // sentences of other packages (lang_tell.go)
	toldFrom  map[string]string
}

// languages are the catalogues there are, beside English.
var languages = [...]struct{ tag, name string }{{"zh-CN", "中文"}}

// keyOf folds what nobody sees: line ends and indents of templates are one space, and
// a thin no-break space is written ~, which a translator can see and type.
func keyOf(text string) string {
	return strings.ReplaceAll(strings.Join(strings.FieldsFunc(text, blank), " "), thinSpace, "~")
}

const thinSpace = "\u202f"

func blank(r rune) bool { return r == ' ' || r == '\n' || r == '\t' || r == '\r' }

func readCatalogue(files fs.FS, tag, name string) (*catalogue, error) {
	c := &catalogue{tag: tag, name: name, text: map[string]string{}, from: map[string]string{}, toldFrom: map[string]string{}}
	dir := path.Join("catalogue", tag)
	list, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil, fmt.Errorf("read catalogue %s: %w", tag, err)
	}
	for _, f := range list {
		body, err := fs.ReadFile(files, path.Join(dir, f.Name()))
		if err != nil {
			return nil, fmt.Errorf("read catalogue %s: %w", tag, err)
		}
		if err := c.add(path.Join(tag, f.Name()), string(body)); err != nil {
			return nil, err
		}
	}
	c.sortTold()
	return c, nil
}

// add reads one file: an English text at the start of a line, what stands for it on
// the next line after a tab, # before remarks. All mistakes are told at once.
func (c *catalogue) add(file, body string) error {
	var errs []error
	key, at := "", ""
	for i, line := range strings.Split(strings.TrimSuffix(body, "\n"), "\n") {
		here := fmt.Sprintf("%s:%d", file, i+1)
		bad := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("%s: %s", here, fmt.Sprintf(format, args...)))
		}
		text, indented := strings.CutPrefix(line, "\t")
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case !indented && key != "":
			bad("must be the translation of %q (%s), after a tab", key, at)
			key = ""
		case !indented:
			if key, at = line, here; key != keyOf(key) {
				bad("must be %q: one space between words, ~ for the thin one", keyOf(key))
			}
		case key == "":
			bad("must follow the English text it translates")
		case strings.HasPrefix(path.Base(file), "told"):
			if from := c.toldFrom[key]; from != "" {
				bad("%q is translated already, at %s", key, from)
			}
			x, err := newTelling(strings.ReplaceAll(key, "~", thinSpace), strings.ReplaceAll(text, "~", thinSpace))
			if err != nil {
				bad("%v", err)
			}
			c.told, c.toldFrom[key] = append(c.told, x), at
			key = ""
		case c.from[key] != "":
			bad("%q is translated already, at %s", key, c.from[key])
			key = ""
		default:
			c.text[key], c.from[key] = strings.ReplaceAll(text, "~", thinSpace), at
			key = ""
		}
	}
	if key != "" {
		errs = append(errs, fmt.Errorf("%s: %q has no translation", at, key))
	}
	return errors.Join(errs...)
}
