// Package source says where documents come from, and follows their changes.
package source

import (
	"context"
	"errors"

	"breakwater/internal/conf"
)

// Document is all files of a source at one moment.
type Document struct {
	Files []conf.File
	Hash  string // of names and contents: equal where nothing changed
}

// ErrAgain is what apply wraps that did not take the document in, or another than that:
// with the next change, or full reading, it is given what there is then, even the same.
var ErrAgain = errors.New("to be given again")

// Source follows documents: it calls apply with the first state and with every
// different one after it, until ctx ends. An error of apply, but ErrAgain, is the receiver's
// matter (the old configuration goes on serving); the source goes on watching.
type Source interface {
	Follow(ctx context.Context, apply func(Document) error) error
}
