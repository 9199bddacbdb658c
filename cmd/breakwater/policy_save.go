package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"breakwater/internal/auth"
	"breakwater/internal/conf"
	"breakwater/slo/freeze"
)

// policyShelf writes policies where control reads its documents from. The files stay
// the truth: whoever edits them next goes on from there.
type policyShelf struct{ c *control }

// ruler is between two documents of a file.
var ruler = regexp.MustCompile(`(?m)^---[ \t]*\r?\n`)

// SavePolicy implements freeze.PolicyShelf.
func (s policyShelf) SavePolicy(ctx context.Context, actor, name, document, reason string) (string, error) {
	setup := &setupDesk{c: s.c}
	place := setup.Place()
	if place.Closed != "" {
		return "", freeze.NotSaved("not_ours", "%s", place.Closed)
	}
	s.c.writing.Lock()
	defer s.c.writing.Unlock()
	is, err := conf.Load(place.Path)
	if err != nil {
		return "", freeze.NotSaved("no_documents", "the documents in %s cannot be read: %v", place.Path, err)
	}
	will, at, err := withPolicy(is, place.Path, name, document)
	if err != nil {
		return "", err
	}
	if err := checkDocuments(will); err != nil {
		return "", freeze.NotSaved("mistakes", "with it the documents would be refused, so nothing was written: %v", err)
	}
	var log conf.Log
	freeze.Parse(will, &log) // beside the others: two must not rule as closely
	if err := log.Err(); err != nil {
		return "", freeze.NotSaved("mistakes", "with it the policies would be refused, so nothing was written: %v", err)
	}
	if why := documentDesk(s).closed(is, will); why != "" {
		return "", freeze.NotSaved("not_ours", "%s", why)
	}
	p, err := freeze.One(at, document)
	if err != nil {
		return "", freeze.NotSaved("mistakes", "%v", err)
	}
	entry := auth.Entry{Actor: actor, Action: "policy.save", Object: name, Detail: fmt.Sprintf("revision %s in %s: %s", p.Revision(), at, reason)}
	var audited error
	if err := replace(is, will, func() error {
		audited = s.c.store.Audit(ctx, entry)
		return audited
	}); audited != nil {
		return "", fmt.Errorf("save policy %s: %w", name, audited)
	} else if err != nil {
		return "", freeze.NotSaved("not_written", "it was not written: %v", err)
	}
	// It is there: that whoever asked goes away must not leave it half taken in.
	ctx = context.WithoutCancel(ctx)
	now, err := s.c.store.Now(ctx)
	if err == nil {
		err = s.c.importDocuments(ctx, now)
	}
	if err != nil {
		return at, fmt.Errorf("policy %s is written to %s; it holds once documents are read again: %w", name, at, err)
	}
	return at, nil
}

// withPolicy is files with the document of a policy in the place of the one of its
// name, or in a file of its own.
func withPolicy(files []conf.File, dir, name, document string) (will []conf.File, at string, err error) {
	document = strings.TrimSpace(document) + "\n"
	for _, f := range files {
		parts := ruler.Split(string(f.Data), -1)
		for i, part := range parts {
			if p, err := freeze.One(f.Name, part); err != nil || p.Name != name {
				continue
			}
			if at != "" {
				return nil, "", freeze.NotSaved("mistakes", "%s stands twice, in %s and in %s", name, at, f.Name)
			}
			at, parts[i] = f.Name, document
		}
		if at == f.Name {
			f.Data = []byte(strings.Join(parts, "---\n"))
		}
		will = append(will, f)
	}
	if at != "" {
		return will, at, nil
	}
	file := "freeze-" + name + ".yaml"
	if !documentName.MatchString(file) {
		return nil, "", freeze.NotSaved("mistakes", "%q cannot be the name of a file", file)
	}
	at = filepath.Join(dir, file)
	for _, f := range files {
		if f.Name == at {
			return nil, "", freeze.NotSaved("not_ours", "%s is there and holds something else", at)
		}
	}
	return append(will, conf.File{Name: at, Data: []byte(document)}), at, nil
}

var _ freeze.PolicyShelf = policyShelf{}
