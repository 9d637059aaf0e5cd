package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func granted(asked, took time.Duration) answer {
	return answer{asked: asked, took: took, granted: true}
}

// A token counts in a span that has the request and its answer.
func TestExcess(t *testing.T) {
	at := func(instants ...time.Duration) (all answers) {
		for _, i := range instants {
			all = append(all, granted(i, 0))
		}
		return all
	}
	for _, tt := range []struct {
		name string
		all  answers
		want float64
	}{
		{"none", nil, 0},
		{"a denial", answers{{asked: 0}}, 0},
		{"a burst of three", at(0, 0, 0), 3},
		{"a burst, and what is refilled", at(0, 0, 0, time.Second), 3},
		{"a second burst", at(0, 0, 0, 2*time.Second, 2*time.Second, 2*time.Second), 4},
		{"an answer that takes a second is not certain to be a part of the burst", append(at(0, 0, 0), granted(0, time.Second)), 3},
		{"a request from before a burst is none of it", append(at(time.Second, time.Second), granted(0, time.Second)), 2},
	} {
		if got := tt.all.excess(1); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Only the table of a page is replaced, and a row has the largest value.
func TestTable(t *testing.T) {
	tab := table{rows: []row{{family: "memory", fault: "kill -9"}}, seeds: 2, results: make([][]measure, 1)}
	for _, v := range []float64{3, 7, 5} {
		tab.add(0, []measure{{What: "tokens", Value: v, Bound: 6, Stated: "*b*", Link: "serve.md"}})
	}
	if err := tab.verdict(); err == nil || tab.results[0][0].Value != 7 {
		t.Errorf("%v, %v: want 7, which is beyond 6", tab.results, err)
	}
	page := filepath.Join(t.TempDir(), "page.md")
	for _, s := range []struct{ text, table, want string }{
		{"before\n" + tableBegins + "old\n" + tableEnds + "\nafter\n", "new\n", "before\n" + tableBegins + "new\n" + tableEnds + "\nafter\n"},
		{"no place", "new\n", ""},
	} {
		if err := os.WriteFile(page, []byte(s.text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := replaceTable(page, s.table)
		if got, _ := os.ReadFile(page); s.want != "" && string(got) != s.want || (err == nil) != (s.want != "") {
			t.Errorf("%q, %v: want %q", got, err, s.want)
		}
	}
}
