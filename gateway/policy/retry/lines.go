package retry

import (
	"io"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"
)

// Line is one decision, as the ponytail log states it.
type Line struct {
	At        time.Time
	Message   Message
	RequestID string
	Upstream  string
	Status    int           // triggered, skipped: of the try; succeeded, failed: the final one
	Retry     int           // triggered: number of the retry, from 1; else how many were made
	Backoff   time.Duration // triggered
	Latency   time.Duration // succeeded, failed: from the first try to the answer
	Reason    string        // decision_reason; succeeded, failed: of the first retry
	Skip      string        // skipped: why
	Index     int           // skipped, where a reason matched: the place of the status in its list
}

// Message is the kind of a Line.
type Message string

// The messages.
const (
	Triggered Message = "retry triggered"
	Succeeded Message = "retry succeeded"
	Failed    Message = "retry failed"
	Skipped   Message = "retry skipped"
)

// Log takes lines when they are decided. It must not keep the strings.
type Log interface{ Retry(Line) }

// Lines writes each line as the JSON of the ponytail log. It is safe for
// concurrent use; one Write is one line.
type Lines struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

// NewLines writes to w.
func NewLines(w io.Writer) *Lines { return &Lines{w: w} }

// Retry implements Log. An error of the writer is let go: the event log holds
// the same facts, and traffic does not stop for a full pipe's end.
func (l *Lines) Retry(line Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = appendLine(l.buf[:0], line)
	_, _ = l.w.Write(l.buf)
}

func appendLine(b []byte, l Line) []byte {
	b = append(b, `{"level":"info","ts":"`...)
	b = l.At.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
	b = append(b, `","caller":"retry/layer.go","msg":"`...)
	b = append(b, l.Message...)
	b = appendString(append(b, `","request_id":`...), l.RequestID)
	b = appendString(append(b, `,"upstream":`...), l.Upstream)
	switch l.Message {
	case Triggered:
		b = appendInt(b, `,"status_code":`, int64(l.Status))
		b = appendInt(b, `,"retry_count":`, int64(l.Retry))
		b = appendInt(b, `,"backoff_ms":`, l.Backoff.Milliseconds())
		b = appendString(append(b, `,"decision_reason":`...), l.Reason)
	case Skipped:
		b = appendInt(b, `,"status_code":`, int64(l.Status))
		b = appendInt(b, `,"retry_count":`, int64(l.Retry))
		if l.Reason != "" { // the lines of the text have no room for it
			b = appendInt(b, `,"matched_index":`, int64(l.Index))
		}
		b = appendString(append(b, `,"skip_reason":`...), l.Skip)
	default:
		b = appendInt(b, `,"final_status_code":`, int64(l.Status))
		b = appendInt(b, `,"total_retries":`, int64(l.Retry))
		b = appendInt(b, `,"total_latency_ms":`, l.Latency.Milliseconds())
	}
	return append(b, '}', '\n')
}

func appendInt(b []byte, key string, v int64) []byte {
	return strconv.AppendInt(append(b, key...), v, 10)
}

// appendString appends s as a JSON string. Request ids come from outside: a
// quote or a line break in one must not forge a second line.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20 || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			b = append(b, c)
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(b, `\ufffd`...)
			} else {
				b = append(b, s[i:i+size]...)
			}
			i += size
			continue
		}
		i++
	}
	return append(b, '"')
}
