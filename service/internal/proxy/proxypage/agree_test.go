//go:build system

package proxypage_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/browser"
)

// number returns the number that a text begins with, or -1.
func number(text string) float64 {
	text = strings.ReplaceAll(strings.TrimSpace(text), ",", "")
	end := strings.IndexFunc(text, func(c rune) bool { return (c < '0' || c > '9') && c != '.' })
	if end >= 0 {
		text = text[:end]
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return -1
	}
	return v
}

func has(tab *browser.Tab, id, want string) func() bool {
	return func() bool { return strings.Contains(tab.Text(id), want) }
}

// A shown is all the numbers of the page, read at one moment.
type shown struct {
	Tiles   map[string]string // by data-testid
	Legends map[string]string // of the plots, by label
	Classes [][]string        // texts of the cells
	Rules   [][]string
}

const readPage = `(() => {
	const rows = (id) => [...document.querySelectorAll("#" + id + " tr")].map((tr) => [...tr.children].map((td) => td.innerText.trim()));
	const tiles = {}, legends = {};
	for (const e of document.querySelectorAll("[data-testid]")) if (e.matches("dd, .value")) tiles[e.dataset.testid] = e.innerText.trim();
	for (const e of document.querySelectorAll(".u-legend .u-series")) legends[e.querySelector(".u-label").innerText] = e.querySelector(".u-value").innerText;
	return {Tiles: tiles, Legends: legends, Classes: rows("classes"), Rules: rows("rules")};
})()`

// tile returns the number of a tile.
func (s *shown) tile(id string) float64 { return number(s.Tiles[id]) }

// sum adds up a column.
func sum(rows [][]string, column int) (total float64) {
	for _, row := range rows {
		if len(row) > column {
			total += max(number(row[column]), 0)
		}
	}
	return total
}

// agree expects numbers that are the same but for the rounding of their texts, which is half
// a unit for each number of a sum.
func agree(t *testing.T, what string, a, b, within float64) {
	t.Helper()
	if math.Abs(a-b) > within || a < 0 || b < 0 {
		t.Errorf("%s: %v and %v do not agree", what, a, b)
	}
}

// consistent checks that what the page shows in several places agrees.
func consistent(t *testing.T, s *shown) {
	t.Helper()
	law := strings.FieldsFunc(s.Tiles["law"], func(c rune) bool { return c == '=' || c == '×' })
	if len(law) != 3 {
		t.Fatalf("the law is %q", s.Tiles["law"])
	}
	n, x, r := number(law[0]), number(law[1]), number(law[2])
	if strings.Contains(law[2], "ms") {
		r /= 1000
	}
	agree(t, "Little's law", n, x*r, 0.015*n) // three digits each
	agree(t, "throughput and the law's", s.tile("throughput"), x, 0)
	agree(t, "throughput and the plot's", s.tile("throughput"), number(s.Legends["finished"]), 0.06+0.005*x)
	agree(t, "in flight and the plot's", s.tile("inflight"), number(s.Legends["in flight"]), 0)
	agree(t, "waiting and the plot's", s.tile("waiting"), number(s.Legends["waiting"]), 0)
	agree(t, "the limit and the plot's", s.tile("limit"), number(s.Legends["limit"]), 0)
	agree(t, "rejected and the plot's", s.tile("rejected"), number(s.Legends["rejected"]), 0.5)
	agree(t, "denied and the plot's", s.tile("denied"), number(s.Legends["denied"]), 0.5)
	agree(t, "in flight and the classes'", s.tile("inflight"), sum(s.Classes, 2), 0)
	agree(t, "waiting and the classes'", s.tile("waiting"), sum(s.Classes, 3), 0)
	agree(t, "arriving and the classes'", s.tile("requests"), sum(s.Classes, 4), 3)
	agree(t, "rejected and the classes'", s.tile("rejected"), sum(s.Classes, 5), 3)
	agree(t, "denied and the classes'", s.tile("denied"), sum(s.Classes, 7), 3)
	agree(t, "denied and the rules'", s.tile("denied"), sum(s.Rules, 4), 3)
	reasons := 0.0
	for reason := range strings.SplitSeq(s.Tiles["reasons"], " · ") {
		_, v, _ := strings.Cut(reason, " ")
		reasons += number(v)
	}
	agree(t, "rejected and its reasons", s.tile("rejected"), reasons, 3)
}
