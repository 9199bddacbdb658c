package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// How the documents of a revision came to be where control reads them.
const (
	DocumentsFound      = "found"       // somebody put them there
	DocumentsWritten    = "written"     // by a page, for a person
	DocumentsRolledBack = "rolled_back" // an earlier revision was put back
)

// documentsKept is how many revisions are kept.
const documentsKept = 500

// Documents is what the documents of --config were at one time.
type Documents struct {
	Number   int64     `json:"number"`
	At       time.Time `json:"at"`
	Place    string    `json:"place"` // the file or directory
	Hash     string    `json:"hash"`  // over names and texts
	How      string    `json:"how"`
	By       string    `json:"by" db:"made_by"`
	Reason   string    `json:"reason,omitempty"`
	Restores int64     `json:"restores,omitempty"` // the revision that was put back; 0: none
	// Gateway is the revision that a gateway gives these documents; "" where none
	// takes them.
	Gateway  string         `json:"gateway_revision,omitempty"`
	Mistakes string         `json:"mistakes,omitempty"` // one a line, at file:line:col; "": none
	Files    []DocumentFile `json:"files,omitempty"`    // nil in lists
}

// DocumentFile is one file of them, named as it is below the place.
type DocumentFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// documentsLock serialises who adds revisions, across processes. The number is
// "docs" in ASCII.
const documentsLock = 0x646f6373

const (
	documentsLockSQL = `select pg_advisory_xact_lock(@lock)`
	addDocumentsSQL  = `
insert into document_revision (at, place, hash, how, made_by, reason, restores, gateway, mistakes, files)
select @at, @place, @hash, @how, @made_by, @reason, nullif(@restores::bigint, 0), @gateway, @mistakes, @files
where @hash is distinct from (select hash from document_revision where place = @place order by number desc limit 1)
returning number`
	pruneDocumentsSQL = `
delete from document_revision where number <= (select number from document_revision order by number desc offset @kept limit 1)`
)

// KeepDocuments adds a revision, unless the newest one of that place is the same;
// added says which.
func (s *Store) KeepDocuments(ctx context.Context, d Documents) (number int64, added bool, err error) {
	// What PostgreSQL cannot hold no parser takes either: such a revision is kept
	// to be seen, and is never put back.
	list := make([]DocumentFile, len(d.Files))
	for i, f := range d.Files {
		list[i] = DocumentFile{textOf(f.Name), textOf(f.Text)}
	}
	files, err := json.Marshal(list)
	if err != nil {
		return 0, false, fmt.Errorf("keep the documents: %w", err)
	}
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, documentsLockSQL, pgx.StrictNamedArgs{"lock": int64(documentsLock)}); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, addDocumentsSQL, pgx.StrictNamedArgs{"at": d.At, "place": textOf(d.Place), "hash": d.Hash, "how": d.How, "made_by": textOf(d.By),
			"reason": textOf(d.Reason), "restores": d.Restores, "gateway": d.Gateway, "mistakes": textOf(d.Mistakes), "files": files}).Scan(&number)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		added = err == nil
		if err == nil {
			_, err = tx.Exec(ctx, pruneDocumentsSQL, pgx.StrictNamedArgs{"kept": documentsKept})
		}
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("keep the documents: %w", err)
	}
	return number, added, nil
}

const documentRevisionsSQL = `
select number, at, place, hash, how, made_by, reason, coalesce(restores, 0) as restores, gateway, mistakes, null::jsonb as files
from document_revision order by number desc limit @limit`

// DocumentRevisions lists them without texts, the newest first.
func (s *Store) DocumentRevisions(ctx context.Context, limit int) ([]Documents, error) {
	rows, err := s.db.Query(ctx, documentRevisionsSQL, pgx.StrictNamedArgs{"limit": limit})
	if err != nil {
		return nil, fmt.Errorf("revisions of documents: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[Documents])
	if err != nil {
		return nil, fmt.Errorf("revisions of documents: %w", err)
	}
	for i := range found {
		found[i].At = found[i].At.UTC()
	}
	return found, nil
}

const documentRevisionSQL = `
select number, at, place, hash, how, made_by, reason, coalesce(restores, 0) as restores, gateway, mistakes, files
from document_revision where number = @number`

// DocumentRevision returns one with its texts; false: it is not there any more, or
// never was.
func (s *Store) DocumentRevision(ctx context.Context, number int64) (Documents, bool, error) {
	rows, err := s.db.Query(ctx, documentRevisionSQL, pgx.StrictNamedArgs{"number": number})
	if err != nil {
		return Documents{}, false, fmt.Errorf("revision %d of the documents: %w", number, err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Documents])
	if errors.Is(err, pgx.ErrNoRows) {
		return Documents{}, false, nil
	}
	if err != nil {
		return Documents{}, false, fmt.Errorf("revision %d of the documents: %w", number, err)
	}
	d.At = d.At.UTC()
	return d, true, nil
}
