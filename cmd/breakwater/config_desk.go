package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/source"
	"breakwater/internal/auth"
	"breakwater/internal/conf"
	"breakwater/internal/store"
	"breakwater/web"
)

// documentDesk keeps what the documents of --config were, and puts an earlier state
// back. The files stay the truth: to roll back is to write them, so that gateways
// which follow the directory take it as they take any other change, with or without
// control, and whoever edits them next goes on from there.
type documentDesk struct{ c *control }

// keep notes the state of files, unless it is the newest that is known.
func (d documentDesk) keep(ctx context.Context, files []conf.File, how store.Documents) (int64, error) {
	place, err := filepath.Abs(d.c.set.config)
	if err != nil {
		return 0, fmt.Errorf("keep the documents: %w", err)
	}
	how.Place, how.Hash, how.Files = place, conf.Hash(below(files)), nil
	for _, f := range below(files) {
		how.Files = append(how.Files, store.DocumentFile{Name: f.Name, Text: string(f.Data)})
	}
	if err := checkDocuments(files); err != nil {
		how.Mistakes = err.Error()
	}
	var log conf.Log
	if cfg := config.Parse(files, &log); config.Loadable(&log) && len(cfg.Routes) > 0 {
		how.Gateway = cfg.Revision
	}
	number, _, err := d.c.store.KeepDocuments(ctx, how)
	return number, err
}

// below names files as they are in their directory, so that the same documents are
// the same wherever they lie.
func below(files []conf.File) []conf.File {
	out := make([]conf.File, len(files))
	for i, f := range files {
		out[i] = conf.File{Name: filepath.Base(f.Name), Data: f.Data}
	}
	return out
}

// keepImported notes what control has just read: found there, or written for
// whoever the request comes from.
func (d documentDesk) keepImported(ctx context.Context, files []conf.File, now time.Time) error {
	how := store.Documents{At: now, How: store.DocumentsFound, By: "system"}
	if who := auth.From(ctx); who.Name != "" {
		how.How, how.By = store.DocumentsWritten, who.Name
	}
	_, err := d.keep(ctx, files, how)
	return err
}

// follow notes each change of the files, and takes it in, until ctx ends: SLOs and
// drills hold as soon as routes do. Files that hold nothing at all are not taken: a
// directory that lost its mount looks like that, and must not end every promise.
func (d documentDesk) follow(ctx context.Context) error {
	if d.c.set.config == "" {
		return nil
	}
	src := source.File{Path: d.c.set.config, Poll: time.Second}
	for {
		err := src.Follow(ctx, func(doc source.Document) error {
			err := d.take(ctx, doc)
			if err != nil && ctx.Err() == nil && err != source.ErrAgain { // which alone says that nothing is wrong
				d.c.log.Warn("a change of the documents is not taken in", "hash", doc.Hash, "err", err)
			}
			return err
		})
		if ctx.Err() != nil {
			return nil
		}
		d.c.log.Warn("the documents cannot be followed", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(5 * time.Second):
		}
	}
}

// take keeps what the files are by now, and takes it in. That may be later than doc, and
// then doc may come back: it has to be given again.
func (d documentDesk) take(ctx context.Context, doc source.Document) error {
	d.c.writing.Lock() // or what a page is writing would count as found
	defer d.c.writing.Unlock()
	files, err := conf.Load(d.c.set.config)
	if err != nil {
		return err
	}
	now, err := d.c.store.Now(ctx)
	if err == nil {
		_, err = d.keep(ctx, files, store.Documents{At: now, How: store.DocumentsFound, By: "system"})
	}
	if err != nil { // the database is away, and may come back
		return fmt.Errorf("%w: %w", source.ErrAgain, err)
	}
	if conf.Hash(files) != d.c.imported && len(conf.SplitAll(files, &conf.Log{})) > 0 {
		err = d.c.importDocuments(ctx, now)
	}
	switch moved := conf.Hash(files) != doc.Hash; {
	case moved && err == nil:
		return source.ErrAgain
	case moved:
		return fmt.Errorf("%w: %w", source.ErrAgain, err)
	}
	return err
}

// Revisions implements web.Documents.
func (d documentDesk) Revisions(ctx context.Context) ([]web.DocumentRevision, error) {
	list, err := d.c.store.DocumentRevisions(ctx, 200)
	if err != nil {
		return nil, err
	}
	at, err := filepath.Abs(d.c.set.config)
	if err != nil {
		return nil, fmt.Errorf("find the documents: %w", err)
	}
	out := make([]web.DocumentRevision, len(list))
	newest := true
	for i, r := range list {
		out[i] = listed(r)
		if r.Place == at && newest {
			out[i].InPlace, newest = true, false
		}
	}
	return out, nil
}

// newest is the last revision of the documents that this control reads.
func (d documentDesk) newest(ctx context.Context) (web.DocumentRevision, error) {
	list, err := d.Revisions(ctx)
	if err != nil {
		return web.DocumentRevision{}, err
	}
	for _, r := range list {
		if r.InPlace {
			return r, nil
		}
	}
	return web.DocumentRevision{}, errors.New("no revision of these documents is kept")
}

// Compare tells what putting a revision back would change in the files.
func (d documentDesk) Compare(ctx context.Context, number int64) (web.DocumentChange, error) {
	is, at, err := d.read()
	if err != nil {
		return web.DocumentChange{}, err
	}
	wanted, files, err := d.revision(ctx, number, at)
	if err != nil {
		return web.DocumentChange{}, err
	}
	out := web.DocumentChange{Revision: listed(wanted), Place: at, Files: differences(below(is), below(files)), Closed: d.closed(is, files)}
	newest, err := d.newest(ctx)
	if err != nil {
		return web.DocumentChange{}, err
	}
	out.Newest = newest.Number
	if err := d.c.checked.of(files, checkDocuments); err != nil {
		out.Mistakes = mistakesOf(err)
	}
	return out, nil
}

// read loads what is there now, and says where.
func (d documentDesk) read() ([]conf.File, string, error) {
	if d.c.set.config == "" {
		return nil, "", &web.DocumentTrouble{Status: 409, Code: "no_documents", Text: "Control was started without --config, so it has no documents to put back."}
	}
	at, err := filepath.Abs(d.c.set.config)
	if err != nil {
		return nil, "", fmt.Errorf("find the documents: %w", err)
	}
	files, err := conf.Load(at)
	if err != nil {
		return nil, at, &web.DocumentTrouble{Status: 409, Code: "no_documents", Text: "The documents in " + at + " cannot be read: " + fileTrouble(err) + "."}
	}
	return files, at, nil
}

// revision is one that is kept, and its files as they would lie at a place.
func (d documentDesk) revision(ctx context.Context, number int64, at string) (store.Documents, []conf.File, error) {
	wanted, ok, err := d.c.store.DocumentRevision(ctx, number)
	if err != nil {
		return wanted, nil, err
	}
	if !ok {
		return wanted, nil, &web.DocumentTrouble{Status: 404, Code: "no_revision", Text: fmt.Sprintf("No revision %d of the documents is kept.", number)}
	}
	one := false
	if info, err := os.Stat(at); err == nil {
		one = !info.IsDir()
	}
	if one && (len(wanted.Files) != 1 || wanted.Files[0].Name != filepath.Base(at)) {
		return wanted, nil, &web.DocumentTrouble{Status: 409, Code: "other_place", Text: fmt.Sprintf("Control reads one file, %s, and revision %d has others.", at, number)}
	}
	var files []conf.File
	for _, f := range wanted.Files {
		if f.Name != filepath.Base(f.Name) || f.Name == "." || f.Name == ".." || strings.HasPrefix(f.Name, ".") {
			return wanted, nil, fmt.Errorf("revision %d has a file called %q", number, f.Name)
		}
		name := filepath.Join(at, f.Name)
		if one {
			name = at
		}
		files = append(files, conf.File{Name: name, Data: []byte(f.Text)})
	}
	return wanted, files, nil
}

// closed says why these files cannot be written by us; "": they can, as far as one
// sees without trying.
func (d documentDesk) closed(is, will []conf.File) string {
	for _, f := range slices.Concat(is, will) {
		if info, err := os.Lstat(f.Name); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return f.Name + " is a link that something else keeps (Kubernetes does so); roll back there."
		}
	}
	return ""
}

// RollBack puts a revision back: whole, checked, told in the audit first, and as a
// revision of its own. What is there already is not written again. seen is the
// newest revision that whoever asks has seen; 0 asks for no proof.
func (d documentDesk) RollBack(ctx context.Context, actor string, number, seen int64, reason string) (web.DocumentRevision, error) {
	d.c.writing.Lock()
	defer d.c.writing.Unlock()
	is, at, err := d.read()
	if err != nil {
		return web.DocumentRevision{}, err
	}
	wanted, will, err := d.revision(ctx, number, at)
	if err != nil {
		return web.DocumentRevision{}, err
	}
	now, err := d.c.store.Now(ctx)
	if err != nil {
		return web.DocumentRevision{}, err
	}
	// What is there is kept before anything takes its place.
	if _, err := d.keep(ctx, is, store.Documents{At: now, How: store.DocumentsFound, By: "system"}); err != nil {
		return web.DocumentRevision{}, err
	}
	newest, err := d.newest(ctx)
	if err != nil {
		return web.DocumentRevision{}, err
	}
	if conf.Hash(below(is)) == conf.Hash(below(will)) {
		return newest, nil
	}
	if seen != 0 && seen != newest.Number {
		return web.DocumentRevision{}, &web.DocumentTrouble{Status: 409, Code: "changed_since", Text: fmt.Sprintf("The documents were changed since you looked: revision %d was the newest then, %d is now. Nothing was written.", seen, newest.Number)}
	}
	if err := checkDocuments(will); err != nil {
		return web.DocumentRevision{}, &web.DocumentTrouble{Status: 409, Code: "mistakes", Text: fmt.Sprintf("Revision %d would be refused, so nothing was written.", number), Mistakes: mistakesOf(err)}
	}
	if why := d.closed(is, will); why != "" {
		return web.DocumentRevision{}, &web.DocumentTrouble{Status: 409, Code: "not_ours", Text: why}
	}
	entry := auth.Entry{Actor: actor, Action: "documents.rollback", Object: fmt.Sprintf("revision %d", number), Detail: fmt.Sprintf("from %d in %s, hash %s: %s", newest.Number, at, wanted.Hash, reason)}
	if err := replace(is, will, func() error { return d.c.store.Audit(ctx, entry) }); err != nil {
		return web.DocumentRevision{}, &web.DocumentTrouble{Status: 409, Code: "not_written", Text: "The documents were not put back: " + err.Error() + "."}
	}
	// It is there: that whoever asked goes away must not leave it half taken in.
	ctx = context.WithoutCancel(ctx)
	made := store.Documents{At: now, How: store.DocumentsRolledBack, By: actor, Reason: reason, Restores: number}
	if made.Number, err = d.keep(ctx, will, made); err != nil {
		return web.DocumentRevision{}, err
	}
	if err := d.c.importDocuments(ctx, now); err != nil {
		return web.DocumentRevision{}, fmt.Errorf("the documents are put back; budgets and drills take them after a restart: %w", err)
	}
	if err := d.c.slo.Tick(ctx, now); err != nil {
		d.c.log.Warn("the documents are weighed with the next tick", "err", err)
	}
	made.Hash, made.Gateway, made.Mistakes = wanted.Hash, wanted.Gateway, wanted.Mistakes
	return listed(made), nil
}

// replace makes files be as they will. All new texts are written beside the old ones
// before do says yes; after that each file is one rename, so that no reader sees half
// a text, and whoever reads between two of them reads again within half a second.
func replace(is, will []conf.File, do func() error) error {
	have := map[string]string{}
	for _, f := range is {
		have[f.Name] = string(f.Data)
	}
	type move struct{ from, to string }
	var moves []move
	defer func() {
		for _, m := range moves {
			_ = os.Remove(m.from) // those that were not moved
		}
	}()
	for _, f := range will {
		text, there := have[f.Name]
		delete(have, f.Name)
		if there && text == string(f.Data) {
			continue
		}
		tmp, err := writeBeside(f)
		if err != nil {
			return err
		}
		moves = append(moves, move{tmp, f.Name})
		if info, err := os.Stat(f.Name); err == nil {
			if err := os.Chmod(tmp, info.Mode().Perm()); err != nil {
				return fmt.Errorf("write %s: %s", f.Name, fileTrouble(err))
			}
		}
	}
	for name := range have { // may we take away, too?
		tmp, err := writeBeside(conf.File{Name: name})
		if err != nil {
			return err
		}
		_ = os.Remove(tmp) // it was to be seen whether it can be made
		break
	}
	if err := do(); err != nil {
		return err
	}
	for _, m := range moves {
		if err := os.Rename(m.from, m.to); err != nil {
			return fmt.Errorf("write %s: %s", m.to, fileTrouble(err))
		}
	}
	for name := range have {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %s", name, fileTrouble(err))
		}
	}
	return nil
}

// mistakesOf are what checkDocuments found, one each.
func mistakesOf(err error) []string { return strings.Split(err.Error(), "\n") }

// listed is a revision as lists show it.
func listed(d store.Documents) web.DocumentRevision {
	out := web.DocumentRevision{Number: d.Number, At: d.At, Place: d.Place, Hash: d.Hash, How: d.How, By: d.By, Reason: d.Reason, Restores: d.Restores, Gateway: d.Gateway}
	if d.Mistakes != "" {
		out.Mistakes = strings.Split(d.Mistakes, "\n")
	}
	return out
}
