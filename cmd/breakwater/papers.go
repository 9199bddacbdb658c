package main

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"breakwater/gateway/config"
	"breakwater/internal/conf"
)

// byFiles remembers what was made of some documents, the last few of them: pages and
// looks at readiness ask many times a second, and to parse the documents of 200
// services takes a fifth of one. What is handed out is shared and may not be changed.
type byFiles[T any] struct {
	mu    sync.Mutex
	known []made[T] // the last one that was asked for at the end
}

type made[T any] struct {
	of   [sha256.Size]byte
	what T
}

// mostMade is how many sets of documents are remembered: those of today, and a few
// revisions that somebody looks at.
const mostMade = 4

// of is what make makes of files, made once. Whoever asks meanwhile waits for it.
func (b *byFiles[T]) of(files []conf.File, make func([]conf.File) T) T {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s\x00%d\x00", f.Name, len(f.Data))
		_, _ = h.Write(f.Data) // a hash never fails
	}
	sum := [sha256.Size]byte(h.Sum(nil))
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.known, func(m made[T]) bool { return m.of == sum })
	if i < 0 {
		b.known = append(b.known, made[T]{sum, make(files)})
		b.known = slices.Clone(b.known[max(0, len(b.known)-mostMade):])
		return b.known[len(b.known)-1].what
	}
	m := b.known[i]
	b.known = append(slices.Delete(b.known, i, i+1), m)
	return m.what
}

// paperwork is what there is to know of documents.
type paperwork struct {
	cfg       *config.Config
	contracts []paper // of other systems, that name a service
	codes     []string
}

type paper struct{ service, name string }

func parsePapers(files []conf.File) paperwork {
	var mistakes conf.Log
	out := paperwork{cfg: config.Parse(files, &mistakes)}
	for _, d := range conf.SplitAll(files, &mistakes) {
		switch d.Kind {
		case "Contract":
			out.contracts = append(out.contracts, paper{d.Root.Map().Get("service").Str(""), d.Root.Map().Get("name").Str("contract")})
		case "ErrorDictionary":
			out.codes = append(out.codes, d.Root.Map().Get("name").Str("dictionary"))
		}
	}
	return out
}
