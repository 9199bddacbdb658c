package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"breakwater/injector"
	"breakwater/internal/auth"
	"breakwater/internal/conf"
	"breakwater/slo"
	"breakwater/slo/openslo"
	"breakwater/web"
)

// setupDesk is what the setup of a new installation does: it writes documents where
// control reads them from, and makes tokens for gateways. Nothing of it is kept
// elsewhere.
type setupDesk struct{ c *control }

// Gateways are those that have asked for their plan.
func (d *setupDesk) Gateways(ctx context.Context) ([]injector.Gateway, error) {
	return d.c.store.Gateways(ctx)
}

// Place says where documents are read from.
func (d *setupDesk) Place() web.DocumentPlace {
	p := web.DocumentPlace{Path: d.c.set.config, Control: d.c.pagesAt}
	if p.Control == "" {
		p.Control = d.c.set.baseURL()
	}
	if p.Path == "" {
		p.Closed = "Control was started without --config, so it reads no documents. Start it with a directory."
		return p
	}
	if full, err := filepath.Abs(p.Path); err == nil {
		p.Path = full
	}
	switch info, err := os.Stat(p.Path); {
	case err != nil:
		p.Closed = "The documents in " + p.Path + " cannot be looked at: " + fileTrouble(err) + "."
	case !info.IsDir():
		p.Closed = "Control reads one file, " + p.Path + ", and changes none that is there."
	}
	return p
}

// fileTrouble is why a file cannot be used, without its name.
func fileTrouble(err error) string {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err.Error()
	}
	if at, ok := errors.AsType[*os.LinkError](err); ok {
		return at.Err.Error()
	}
	return err.Error()
}

var documentName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*\.yaml$`)

// Write puts a document beside those that are there, and imports them all.
func (d *setupDesk) Write(ctx context.Context, actor, name, text string) (string, error) {
	d.c.writing.Lock() // one document at a time
	defer d.c.writing.Unlock()
	place := d.Place()
	if place.Closed != "" {
		return "", errors.New(strings.TrimSuffix(place.Closed, "."))
	}
	if !documentName.MatchString(name) {
		return "", fmt.Errorf("%q cannot be the name of a document", name)
	}
	files, err := conf.Load(place.Path)
	if err != nil {
		return "", err
	}
	file := conf.File{Name: filepath.Join(place.Path, name), Data: []byte(text)}
	if err := checkDocuments(append(files, file)); err != nil {
		return "", err
	}
	// The last second at which it can be refused is before the row, not after it.
	tmp, err := writeBeside(file)
	if err != nil {
		return "", err
	}
	defer os.Remove(tmp)
	if err := d.c.store.Audit(ctx, auth.Entry{Actor: actor, Action: "documents.write", Object: file.Name, Detail: "hash " + conf.Hash([]conf.File{file})}); err != nil {
		return "", fmt.Errorf("enter it in the audit: %w", err)
	}
	// A link, unlike a rename, never takes the place of a file that is there.
	if err := os.Link(tmp, file.Name); err != nil {
		return "", fmt.Errorf("write %s: %s", file.Name, fileTrouble(err))
	}
	// It is there: that whoever asked goes away must not leave it half taken in.
	ctx = context.WithoutCancel(ctx)
	now, err := d.c.store.Now(ctx)
	if err != nil {
		return file.Name, err
	}
	if err := d.c.importDocuments(ctx, now); err != nil {
		return file.Name, fmt.Errorf("%s is written; it holds after a restart: %w", file.Name, err)
	}
	// What was promised shows at once, and not with the next look of the evaluator.
	if err := d.c.slo.Tick(ctx, now); err != nil {
		d.c.log.Warn("the new documents are weighed with the next tick", "err", err)
	}
	return file.Name, nil
}

// writeBeside writes a document whole, under a name that nobody reads documents by.
func writeBeside(f conf.File) (string, error) {
	tmp, err := os.CreateTemp(filepath.Dir(f.Name), ".new-*")
	if err != nil {
		return "", fmt.Errorf("%s cannot be written to: %s", filepath.Dir(f.Name), fileTrouble(err))
	}
	_, err = tmp.Write(f.Data)
	// The gateway that follows the directory may be another user.
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Sync(), tmp.Close())
	if err != nil {
		_ = os.Remove(tmp.Name()) // nothing of it is of use
		return "", fmt.Errorf("write %s: %s", f.Name, fileTrouble(err))
	}
	return tmp.Name(), nil
}

// checkDocuments reads all documents as gateways and a start of control would.
func checkDocuments(files []conf.File) error {
	var wrong conf.Mistakes
	for _, m := range check(files).Findings {
		if !m.IsWarning {
			wrong = append(wrong, m)
		}
	}
	if len(wrong) > 0 {
		return wrong
	}
	var log conf.Log
	var objectives []slo.Objective
	for _, f := range files {
		objectives = append(objectives, openslo.Parse(f, &log).Objectives...)
	}
	return slo.CheckSet(objectives)
}

// Check reads a document as a gateway would.
func (d *setupDesk) Check(name, text string) error {
	return checkDocuments([]conf.File{{Name: name, Data: []byte(text)}})
}

// Issue makes a token for a gateway.
func (d *setupDesk) Issue(ctx context.Context, actor, name string) (string, error) {
	t := auth.Token{Name: name, Role: auth.Gateway, CreatedBy: actor, CreatedAt: time.Now().UTC()}
	secret, err := auth.Issue(ctx, d.c.store, t)
	d.c.guard.Forget()
	if errors.Is(err, auth.ErrTaken) {
		return "", errors.New("that name was used before, and names are not used twice: choose another")
	}
	return secret, err
}
