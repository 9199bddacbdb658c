package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Entry is one change about to happen, or one that was refused.
type Entry struct {
	Actor  string    // who: a token's name, or "system"
	Action string    // what, as noun.verb: "run.abort"
	Object string    // on which one
	Detail string    // in words
	At     time.Time // zero: the database's clock
}

// Row is an Entry in the chain. Hash covers the row and the hash before it, so
// nothing earlier can be altered, removed or put between without breaking every
// later row. What a chain alone cannot show is that its end was cut off: keep a
// copy of the last hash elsewhere.
type Row struct {
	Seq int64 // from 1, without gaps
	Entry
	Prev, Hash string // hex; Prev of the first row is ""
}

// maxField bounds what a row keeps of each text; a hostile name must not be able
// to make the audit refuse the row.
const maxField = 4 << 10

// Next returns the row that follows (seq, hash). A text that PostgreSQL could not
// hold, or would hold otherwise than it was hashed, is cleaned first.
func Next(seq int64, hash string, e Entry) Row {
	e.Actor, e.Action, e.Object, e.Detail = clean(e.Actor), clean(e.Action), clean(e.Object), clean(e.Detail)
	// The database keeps microseconds; what is hashed must come back equal.
	e.At = e.At.UTC().Truncate(time.Microsecond)
	r := Row{Seq: seq + 1, Entry: e, Prev: hash}
	r.Hash = r.sum()
	return r
}

// sum hashes the canonical form: a JSON list of strings, since a list cannot be
// read in two ways however its members look.
func (r Row) sum() string {
	canonical, err := json.Marshal([]string{r.Prev, strconv.FormatInt(r.Seq, 10), r.At.UTC().Format(time.RFC3339Nano),
		r.Actor, r.Action, r.Object, r.Detail})
	if err != nil {
		panic("auth: strings did not marshal: " + err.Error())
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

func clean(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= maxField {
		return s
	}
	s = s[:maxField]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}

// Log is the audit, to be read in order.
type Log interface {
	// AuditRows returns up to limit rows with a greater Seq than after.
	AuditRows(ctx context.Context, after int64, limit int) ([]Row, error)
}

// Report is what Verify found.
type Report struct {
	Rows int64
	Last string // hash of the last good row
}

// BrokenError names the first row that does not follow from the one before.
type BrokenError struct {
	Seq int64
	Why string
}

func (e *BrokenError) Error() string { return fmt.Sprintf("audit row %d: %s", e.Seq, e.Why) }

const verifyPage = 1000

// Verify walks the whole chain.
func Verify(ctx context.Context, l Log) (Report, error) { return verifyFrom(ctx, l, Report{}) }

// verifyFrom walks what follows the rows that are done. The last of them is not
// read again: the first new row names its hash.
func verifyFrom(ctx context.Context, l Log, done Report) (Report, error) {
	for {
		rows, err := l.AuditRows(ctx, done.Rows, verifyPage)
		if err != nil {
			return done, fmt.Errorf("read the audit after row %d: %w", done.Rows, err)
		}
		for _, r := range rows {
			switch {
			case r.Seq != done.Rows+1:
				return done, &BrokenError{done.Rows + 1, fmt.Sprintf("is missing, row %d follows", r.Seq)}
			case r.Prev != done.Last:
				return done, &BrokenError{r.Seq, "does not name the hash of the row before"}
			case r.sum() != r.Hash:
				return done, &BrokenError{r.Seq, "was altered: its hash does not fit its text"}
			}
			done.Rows, done.Last = r.Seq, r.Hash
		}
		if len(rows) < verifyPage {
			return done, nil
		}
	}
}
