package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strings"
)

//go:embed static
var staticFiles embed.FS

//go:embed templates
var templateFiles embed.FS

// asset is one embedded file, ready in both encodings.
type asset struct {
	mime   string
	plain  []byte
	zipped []byte // nil where it would not be smaller
}

// assets serves the embedded files under names that carry their content's
// hash, so that a browser may keep them for ever and never mixes two releases.
// Modules import one another by plain relative names, rewritten to hashed ones here.
type assets struct {
	byName map[string]asset  // "base.1a2b3c4d.css"
	hashed map[string]string // "base.css" -> "base.1a2b3c4d.css"
}

func loadAssets() (*assets, error) {
	a := &assets{byName: map[string]asset{}, hashed: map[string]string{}}
	var modules []string
	err := fs.WalkDir(staticFiles, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if strings.HasSuffix(name, ".js") && path.Dir(name) == "static" {
			modules = append(modules, name)
			return nil
		}
		return a.add(name, nil)
	})
	if err != nil {
		return nil, fmt.Errorf("read assets: %w", err)
	}
	// A module's name carries the hash of what it imports, so those come first.
	for len(modules) > 0 {
		var later []string
		for _, name := range modules {
			if body, _ := staticFiles.ReadFile(name); a.waits(body) {
				later = append(later, name)
			} else if err := a.add(name, a.rename); err != nil {
				return nil, fmt.Errorf("read assets: %w", err)
			}
		}
		if len(later) == len(modules) {
			return nil, fmt.Errorf("modules import one another in a circle, or one that does not exist: %v", later)
		}
		modules = later
	}
	return a, nil
}

func (a *assets) add(name string, rewrite func([]byte) []byte) error {
	body, err := staticFiles.ReadFile(name)
	if err != nil {
		return err
	}
	if rewrite != nil {
		body = rewrite(body)
	}
	short := strings.TrimPrefix(name, "static/")
	sum := sha256.Sum256(body)
	ext := path.Ext(short)
	hashed := strings.TrimSuffix(short, ext) + "." + hex.EncodeToString(sum[:4]) + ext
	a.hashed[short] = hashed
	a.byName[hashed] = asset{mime: mime.TypeByExtension(ext), plain: body, zipped: zipped(body)}
	return nil
}

// rename turns `from "./x.js"` into the hashed name of x.js.
func (a *assets) rename(body []byte) []byte {
	return imports.ReplaceAllFunc(body, func(found []byte) []byte {
		return []byte(`from "./` + a.hashed[importedName(found)] + `"`)
	})
}

// waits reports whether body imports a module that has no hash yet.
func (a *assets) waits(body []byte) bool {
	for _, found := range imports.FindAll(body, -1) {
		if a.hashed[importedName(found)] == "" {
			return true
		}
	}
	return false
}

var imports = regexp.MustCompile(`from "\./[^"]+"`)

func importedName(found []byte) string {
	return strings.TrimSuffix(strings.TrimPrefix(string(found), `from "./`), `"`)
}

// zipped returns body compressed, or nil if that gains nothing.
func zipped(body []byte) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is a valid constant
	if _, err := z.Write(body); err != nil || z.Close() != nil || out.Len() >= len(body) {
		return nil
	}
	return out.Bytes()
}

// url is the address of an asset; a name that does not exist is a mistake in a
// template and stops the start.
func (a *assets) url(name string) (string, error) {
	hashed, ok := a.hashed[name]
	if !ok {
		return "", fmt.Errorf("no asset %q", name)
	}
	return "/static/" + hashed, nil
}

func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := a.byName[strings.TrimPrefix(r.URL.Path, "/static/")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.mime)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := f.plain
	if f.zipped != nil && acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = f.zipped
	}
	h.Set("Content-Length", fmt.Sprint(len(body)))
	_, _ = w.Write(body) // a client that left is nobody's error
}
