package conf

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Load reads a file, or every *.yaml and *.yml file of a directory (not of the
// directories in it), sorted by name. A file over the limit is read no further
// than shows that it is.
func Load(path string) ([]File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read documents: %w", err)
	}
	if !info.IsDir() {
		f, err := read(path)
		if err != nil {
			return nil, err
		}
		return []File{f}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read documents: %w", err)
	}
	var files []File
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		// A name with a leading dot is an editor's, or a half of a rename.
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") || ext != ".yaml" && ext != ".yml" {
			continue
		}
		f, err := read(filepath.Join(path, e.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

func read(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, fmt.Errorf("read documents: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return File{}, fmt.Errorf("read documents: %s: %w", path, err)
	}
	return File{Name: path, Data: data}, nil
}

// Hash is over names and contents: equal where nothing changed.
func Hash(files []File) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%d %s\n%d\n", len(f.Name), f.Name, len(f.Data))
		h.Write(f.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// SplitAll is Split of several files.
func SplitAll(files []File, log *Log) []Document {
	var docs []Document
	for _, f := range files {
		docs = append(docs, Split(f, log)...)
	}
	return docs
}

// OfKind picks the documents of one apiVersion and kind. Documents of several
// readers may stand in one file: each takes its own and passes over the others.
func OfKind(docs []Document, apiVersion, kind string) []Document {
	var out []Document
	for _, d := range docs {
		if d.APIVersion == apiVersion && d.Kind == kind {
			out = append(out, d)
		}
	}
	return out
}
