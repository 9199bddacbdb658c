package web

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// sheet is a table of a page as a file to take away: values as the API has them,
// whole numbers without spaces, instants in UTC.
type sheet struct {
	name    string
	columns []string
	rows    [][]field
}

// field is one value of a sheet. A missing one is empty in CSV and null in JSON.
type field struct {
	text   string
	number bool
}

func txt(s string) field { return field{text: s} }
func num(n int64) field  { return field{strconv.FormatInt(n, 10), true} }

func instant(t time.Time) field {
	if t.IsZero() {
		return field{}
	}
	return field{text: t.UTC().Format(time.RFC3339Nano)}
}

// Take are the links under which a table can be had as a file.
type Take struct{ Name, CSV, JSON string }

func take(r *http.Request, table string) Take {
	link := func(format string) string {
		q := r.URL.Query()
		q.Del("fragment")
		q.Set("table", table)
		q.Set("format", format)
		return (&url.URL{Path: r.URL.Path, RawQuery: q.Encode()}).String()
	}
	return Take{Name: strings.ReplaceAll(table, "_", " "), CSV: link("csv"), JSON: link("json")}
}

// exported answers a request for one of the sheets of a page, the first unless
// ?table= names another; false: it was not asked for a file.
func (s *Server) exported(w http.ResponseWriter, v view, sheets ...sheet) bool {
	q := v.r.URL.Query()
	format, table := q.Get("format"), q.Get("table")
	if format == "" {
		return false
	}
	var found *sheet
	for i := range sheets {
		if sheets[i].name == table || table == "" && found == nil {
			found = &sheets[i]
		}
	}
	switch {
	case found == nil:
		s.trouble(w, v, http.StatusNotFound, "No such table", "This page has no table "+table+".")
	case format == "csv":
		name(w, found.name+".csv", "text/csv; charset=utf-8")
		out := csv.NewWriter(w)
		_ = out.Write(found.columns) // the client may have gone
		for _, row := range found.rows {
			line := make([]string, len(row))
			for i, f := range row {
				line[i] = f.csv()
			}
			_ = out.Write(line)
		}
		out.Flush()
	case format == "json":
		name(w, found.name+".json", "application/json")
		_, _ = w.Write(found.json())
	default:
		s.trouble(w, v, http.StatusBadRequest, "No such format", "A table can be had as csv or as json, not as "+format+".")
	}
	return true
}

func name(w http.ResponseWriter, file, kind string) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", `attachment; filename="`+file+`"`)
	w.Header().Set("Cache-Control", "no-store")
}

// csv keeps a text that clients choose, such as a caller's name, from being a
// formula where the file is opened as a spreadsheet (OWASP, CSV injection).
func (f field) csv() string {
	if !f.number && f.text != "" && strings.ContainsRune("=+-@\t\r", rune(f.text[0])) {
		return "'" + f.text
	}
	return f.text
}

// json writes a list of objects whose members are in the order of the columns.
func (s sheet) json() []byte {
	var b strings.Builder
	b.WriteByte('[')
	for i, row := range s.rows {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n{")
		for j, f := range row {
			if j > 0 {
				b.WriteByte(',')
			}
			key, _ := json.Marshal(s.columns[j])
			b.Write(key)
			b.WriteByte(':')
			switch {
			case f.text == "":
				b.WriteString("null")
			case f.number:
				b.WriteString(f.text)
			default:
				text, _ := json.Marshal(f.text)
				b.Write(text)
			}
		}
		b.WriteByte('}')
	}
	b.WriteString("\n]\n")
	return []byte(b.String())
}
