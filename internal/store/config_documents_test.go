package store

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/internal/pgtest"
)

func TestRevisionsOfDocuments(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	at := time.Date(2026, 11, 24, 13, 0, 0, 0, time.UTC)
	keep := func(place, hash string, more Documents) (int64, bool) {
		t.Helper()
		more.Place, more.Hash, more.At, more.By = place, hash, at, "ann"
		if more.How == "" {
			more.How = DocumentsFound
		}
		if more.Files == nil {
			more.Files = []DocumentFile{{Name: "gw.yaml", Text: "of " + hash + "\nwith a \u2028 and a \"quote\""}}
		}
		number, added, err := s.KeepDocuments(t.Context(), more)
		if err != nil {
			t.Fatal(err)
		}
		return number, added
	}
	first, added := keep("/etc/a", "h1", Documents{Gateway: "aaaa"})
	if !added {
		t.Fatal("the first is not added")
	}
	if _, again := keep("/etc/a", "h1", Documents{}); again {
		t.Error("the same documents are a second revision")
	}
	if _, added := keep("/etc/b", "h1", Documents{}); !added {
		t.Error("another place has no revisions of its own")
	}
	if _, again := keep("/etc/a", "h1", Documents{}); again {
		t.Error("what another place has makes the same documents new")
	}
	second, _ := keep("/etc/a", "h2", Documents{Mistakes: "gw.yaml:1:1: must be given"})
	third, added := keep("/etc/a", "h1", Documents{How: DocumentsRolledBack, Restores: first, Reason: "as \x00 it was"})
	if !added || second <= first || third <= second {
		t.Fatalf("%d, %d, %d: going back is a revision of its own", first, second, third)
	}
	list, err := s.DocumentRevisions(t.Context(), 10)
	if err != nil || len(list) != 4 || list[0].Number != third || list[0].Restores != first || list[0].Reason != "as \uFFFD it was" || list[0].Files != nil || !list[3].At.Equal(at) || list[1].Mistakes == "" {
		t.Fatalf("%+v, %v", list, err)
	}
	one, ok, err := s.DocumentRevision(t.Context(), first)
	if err != nil || !ok || one.Gateway != "aaaa" || len(one.Files) != 1 || one.Files[0].Text != "of h1\nwith a \u2028 and a \"quote\"" {
		t.Errorf("%+v, %v, %v", one, ok, err)
	}
	if _, ok, err := s.DocumentRevision(t.Context(), 1<<40); ok || err != nil {
		t.Errorf("what never was: %v, %v", ok, err)
	}

	// Controls that start together on one set of documents add it once.
	var got atomic.Int64
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			_, added, err := s.KeepDocuments(t.Context(), Documents{At: at, Place: "/etc/a", Hash: "h9", How: DocumentsFound, By: "system"})
			if err != nil {
				t.Error(err)
			}
			if added {
				got.Add(1)
			}
		})
	}
	wg.Wait()
	if got.Load() != 1 {
		t.Errorf("added %d times", got.Load())
	}

	// The newest are kept, and only so many.
	if _, err := db.Exec(t.Context(), `insert into document_revision (at, place, hash, how, made_by, files)
select at, place, 'm' || n, how, made_by, '[]' from document_revision, generate_series(1, 600) n where number = 1`); err != nil {
		t.Fatal(err)
	}
	last, _ := keep("/etc/a", "h10", Documents{})
	list, err = s.DocumentRevisions(t.Context(), 10_000)
	if err != nil || len(list) != documentsKept || list[0].Number != last {
		t.Errorf("%d are kept, the newest is %s, want %d: %v", len(list), fmt.Sprint(list[0].Number), last, err)
	}
}
