package explain

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxPaste bounds a pasted answer.
const MaxPaste = 64 << 10

// ParseReply reads an answer as it is pasted: a status line as HTTP has it, or the
// status alone; fields, one a line; after an empty line the body. Errors name the
// line.
func ParseReply(text string) (Reply, error) {
	var r Reply
	if len(text) > MaxPaste {
		return r, fmt.Errorf("answer: must be at most %d KiB, got %d KiB", MaxPaste>>10, (len(text)+1023)>>10)
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimRight(head, "\n"), "\n")
	status, err := parseStatus(lines[0])
	if err != nil {
		return r, err
	}
	r.Status, r.Body = status, body
	for i, line := range lines[1:] {
		name, value, err := parseField(line)
		if err != nil {
			return Reply{}, fmt.Errorf("answer: line %d: %w", i+2, err)
		}
		if r.Headers == nil {
			r.Headers = Headers{}
		}
		r.Headers[name] = append(r.Headers[name], value)
	}
	return r, nil
}

// parseStatus reads "HTTP/1.1 503 Service Unavailable", "HTTP/2 503" or "503".
func parseStatus(line string) (int, error) {
	words := strings.Fields(line)
	if len(words) > 1 && strings.HasPrefix(strings.ToUpper(words[0]), "HTTP/") {
		words = words[1:]
	}
	if len(words) == 0 {
		return 0, fmt.Errorf("answer: line 1: must be a status such as HTTP/1.1 503 Service Unavailable or 503, got nothing")
	}
	status, err := strconv.Atoi(words[0])
	if err != nil || len(words[0]) != 3 || status < 200 || status > 599 {
		return 0, fmt.Errorf("answer: line 1: must be a status from 200 to 599, got %q", clip(words[0]))
	}
	return status, nil
}

// ParseFields reads fields as they are pasted, one a line.
func ParseFields(text string) (Headers, error) {
	h := Headers{}
	for i, line := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, value, err := parseField(line)
		if err != nil {
			return nil, fmt.Errorf("headers: line %d: %w", i+1, err)
		}
		h[name] = append(h[name], value)
	}
	return h, nil
}

// parseField reads "Name: value". A name is a token of RFC 9110, section 5.6.2.
func parseField(line string) (name, value string, err error) {
	name, value, ok := strings.Cut(line, ":")
	if !ok || name == "" || strings.ContainsFunc(name, notToken) {
		return "", "", fmt.Errorf("must be Name: value, got %q", clip(line))
	}
	return name, strings.Trim(value, " \t"), nil
}

func notToken(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r < 0x80 && strings.ContainsRune("!#$%&'*+-.^_`|~", r))
}

func clip(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}
