// Package source says where documents come from, and follows their changes.
package source

import (
	"context"

	"breakwater/internal/conf"
)

// Document is all files of a source at one moment.
type Document struct {
	Files []conf.File
	Hash  string // of names and contents: equal where nothing changed
}

// Source follows documents: it calls apply with the first state and with every
// different one after it, until ctx ends. An error of apply is the receiver's
// matter (the old configuration goes on serving); the source goes on watching.
type Source interface {
	Follow(ctx context.Context, apply func(Document) error) error
}
