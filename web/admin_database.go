package web

import (
	"fmt"
	"net/http"

	"breakwater/slo"
)

// Sizes is how much room the database takes.
type Sizes struct {
	Version string
	Bytes   int64
	Tables  []TableSize // the largest first
}

// TableSize is one table, its partitions together.
type TableSize struct {
	Name                        string
	Parts, Rows                 int64 // rows are about so many
	TableBytes, IndexBytes, All int64
}

const mostTables = 15

type adminDatabase struct {
	adminFrame
	More  int // tables that are not shown
	Facts []Fact
	Rows  []sizeRow
	Take  Take
}

type sizeRow struct {
	Name, Parts, Rows, Table, Index, All string
	Bar                                  Bar
}

func (d *adminDesk) database(w http.ResponseWriter, r *http.Request) {
	v := d.look(r)
	p := adminDatabase{Take: take(r, "tables")}
	p.Tabs = adminTabs("Database")
	status := http.StatusOK
	sizes, err := d.a.System.Sizes(r.Context())
	if p.Trouble = d.read(v, "The database", err); err != nil {
		status = http.StatusServiceUnavailable
	}
	s := sheet{name: "tables", columns: []string{"table", "partitions", "rows_estimated", "table_bytes", "index_bytes", "total_bytes"}}
	var ours, rows int64
	most := len(sizes.Tables)
	if r.URL.Query().Get("all") != "1" {
		most = min(most, mostTables)
	}
	p.More = len(sizes.Tables) - most
	for i, t := range sizes.Tables {
		ours, rows = ours+t.All, rows+t.Rows
		s.rows = append(s.rows, []field{txt(t.Name), num(t.Parts), num(t.Rows), num(t.TableBytes), num(t.IndexBytes), num(t.All)})
		if i >= most {
			continue
		}
		p.Rows = append(p.Rows, sizeRow{t.Name, slo.Count(t.Parts), slo.Count(t.Rows), size(t.TableBytes), size(t.IndexBytes), size(t.All),
			Bar{Class: "f-c1", Size: "thin", Width: pos(100 * float64(t.All) / float64(max(sizes.Tables[0].All, 1))), Label: size(t.All)}})
	}
	if d.exported(w, v, s) {
		return
	}
	if err == nil {
		p.Facts = []Fact{{Name: "Database", Value: size(sizes.Bytes), Text: v.say("all of it, PostgreSQL %s.", sizes.Version)},
			{Name: "Our tables", Value: size(ours), Text: v.say("with their indexes, in %s.", v.count(len(sizes.Tables), "table", "tables"))},
			{Name: "Rows", Value: slo.Count(rows), Text: v.say("about, as the statistics have it.")}}
	}
	d.show(w, v, status, "admin-database", Page{Title: "Database", Crumbs: []Link{{Name: "Admin"}, {Name: "Database"}}, Topics: adminTopics}, p)
}

// size writes bytes in binary units, with three digits.
func size(n int64) string {
	if n < 1<<10 {
		return slo.Count(n) + "\u202fB"
	}
	f := float64(n)
	for _, unit := range []string{"KiB", "MiB", "GiB"} {
		if f /= 1024; f < 10 {
			return fmt.Sprintf("%.1f\u202f%s", f, unit)
		} else if f < 1024 || unit == "GiB" {
			return slo.Count(int64(f+0.5)) + "\u202f" + unit
		}
	}
	return ""
}
