// Command hitratio plays traces through caches and prints their hit ratios, in
// percent, as a table in Markdown.
//
//	go run ./hitratio -trace zipf-1.0,loop -size 1000,10000
//
// Traces are synthetic and seeded: they are the same in every run. So are the
// columns but for weir and otter, which choose random seeds (±0.5 for
// small caches), and ristretto, which drops what comes too fast. A request is a
// lookup, and an insertion if that finds nothing. No part of a trace is left out
// as warm-up.
package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
)

// contenders are the columns; the one without make knows the future.
var contenders = []struct {
	name string
	make func(size int) cache
}{
	{"weir", newWeir},
	{"otter", newOtter},
	{"ristretto", newRistretto},
	{"LRU", newLRU},
	{"S3-FIFO", newS3FIFO},
	{"SIEVE", newSieve},
	{"OPT", nil},
}

func main() {
	only := flag.String("trace", "", "play these `names` only, separated by commas")
	caches := flag.String("cache", "", "let these `names` only play")
	sizes := flag.String("size", "", "sizes of caches, in `entries`, instead of each trace's own")
	n := flag.Int("n", 3_000_000, "length of a trace, in `requests`")
	seed := flag.Uint64("seed", 1, "seed of the traces")
	flag.Parse()
	if err := run(os.Stdout, *only, *caches, *sizes, *n, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "hitratio:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, only, caches, sizes string, n int, seed uint64) error {
	chosen := contenders[:0:0]
	for _, c := range contenders {
		if in(caches, c.name) {
			chosen = append(chosen, c)
		}
	}
	var given []int
	for s := range strings.SplitSeq(sizes, ",") {
		if sizes == "" {
			break
		}
		size, err := strconv.Atoi(s)
		if err != nil || size < 1 {
			return fmt.Errorf("-size %s: must be numbers >= 1", sizes)
		}
		given = append(given, size)
	}

	fmt.Fprintf(w, "%d requests, seed %d\n\n| trace | size |", n, seed)
	for _, c := range chosen {
		fmt.Fprintf(w, " %s |", c.name)
	}
	fmt.Fprintf(w, "\n|---|---:|%s\n", strings.Repeat("---:|", len(chosen)))
	for _, t := range traces {
		if !in(only, t.name) {
			continue
		}
		if given != nil {
			t.sizes = given
		}
		keys := t.keys(n, rand.New(rand.NewPCG(seed, 0)))
		for _, size := range t.sizes {
			fmt.Fprintf(w, "| %s | %d |", t.name, size)
			for _, c := range chosen {
				var hits int
				if c.make == nil {
					hits = optimum(keys, size)
				} else {
					hits = play(c.make(size), keys)
				}
				fmt.Fprintf(w, " %.1f |", 100*float64(hits)/float64(n))
			}
			fmt.Fprintln(w)
		}
	}
	fmt.Fprintln(w)
	for _, t := range traces {
		if in(only, t.name) {
			fmt.Fprintf(w, "- %s: %s\n", t.name, t.about)
		}
	}
	return nil
}

// in reports whether name is in a list separated by commas; all are in none.
func in(list, name string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), name)
}

func play(c cache, keys []uint64) (hits int) {
	for _, k := range keys {
		if c.get(k) {
			hits++
		}
	}
	if c.close != nil {
		c.close()
	}
	return hits
}
