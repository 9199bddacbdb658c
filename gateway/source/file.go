package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"breakwater/internal/conf"
)

// File follows a file, or the *.yaml files of a directory.
//
// It looks at names, sizes, times and inodes twice a second, which costs a few
// microseconds and works on every file system, and reads in full every 30 s,
// since times can lie. A Kubernetes config map, an editor's rename and a plain
// write all look the same to it.
type File struct {
	Path string
	Poll time.Duration // between two looks; 0: 500 ms
	Full time.Duration // between two full reads; 0: 30 s
	// Warn is told of each look that could not read; nil is silent. What was
	// read before goes on serving.
	Warn func(error)
}

// Follow implements Source. It fails only where the very first read does.
func (f File) Follow(ctx context.Context, apply func(Document) error) error {
	poll, full := f.Poll, f.Full
	if poll <= 0 {
		poll = 500 * time.Millisecond
	}
	if full <= 0 {
		full = 30 * time.Second
	}
	seen, err := f.look()
	if err != nil {
		return fmt.Errorf("follow documents: %w", err)
	}
	doc, err := f.read()
	if err != nil {
		return fmt.Errorf("follow documents: %w", err)
	}
	// What the receiver says of a document is its own matter: it keeps the old
	// configuration and shows why, and we wait for a better one.
	give := func(next Document) {
		if doc = next; errors.Is(apply(doc), ErrAgain) {
			doc.Hash = "" // no document's
		}
	}
	give(doc)

	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	last := time.Now()
	young := true // read so soon after a change that a second one may hide in the same time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now, err := f.look()
		if err != nil {
			f.warn(err)
			continue
		}
		changed := now != seen
		if !changed && !young && time.Since(last) < full {
			continue
		}
		next, err := f.read()
		if err != nil {
			f.warn(err)
			continue
		}
		after, err := f.look()
		if err != nil || after != now {
			continue // written while we read: half a file is nobody's wish
		}
		seen, last, young = now, time.Now(), changed
		if next.Hash != doc.Hash {
			give(next)
		}
	}
}

func (f File) warn(err error) {
	if f.Warn != nil {
		f.Warn(fmt.Errorf("follow documents: %w", err))
	}
}

func (f File) read() (Document, error) {
	files, err := conf.Load(f.Path)
	if err != nil {
		return Document{}, err
	}
	return Document{Files: files, Hash: conf.Hash(files)}, nil
}

// look gathers what changes when a file does, without reading any.
func (f File) look() (string, error) {
	info, err := os.Stat(f.Path)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	mark(&b, f.Path, info)
	if !info.IsDir() {
		return b.String(), nil
	}
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		path := filepath.Join(f.Path, e.Name())
		if info, err := os.Stat(path); err == nil { // gone since: the next look says so
			mark(&b, path, info)
		}
	}
	return b.String(), nil
}

func mark(b *strings.Builder, path string, info os.FileInfo) {
	fmt.Fprintf(b, "%q %d %d %d\n", path, info.Size(), info.ModTime().UnixNano(), inode(info))
}
