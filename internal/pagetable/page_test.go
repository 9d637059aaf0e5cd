package pagetable

import (
	"math/rand/v2"
	"testing"
)

func TestSizes(t *testing.T) {
	for _, l := range []*Layout{Buckets, Windows} {
		if l.First < 1+l.floors*(l.Words-1) || l.First+l.slots*l.Words != Words || l.homes*l.group != l.slots*l.Words {
			t.Errorf("%+v: floors and slots do not fit on a page", *l)
		}
	}
	if Buckets.floors != 7 || Buckets.First*8 != 64 || Windows.floors != 5 {
		t.Errorf("%d and %d floors; slots of buckets begin at %d", Buckets.floors, Windows.floors, Buckets.First*8)
	}
}

// A search begins at the first slot that near returns.
func TestNear(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	p := new(Page)
	for range 10_000 {
		if print := random.Uint64(); &Near(p, print)[0] != &p[Buckets.home(print)] {
			t.Fatalf("%x", print)
		}
	}
}

// checkPrefixes fails if a Value that counts is not on the page of its
// fingerprint.
func checkPrefixes(t *testing.T, l *Layout, d *Directory, shards uint64, counts func(Value) bool) {
	t.Helper()
	for i, p := range d.Pages {
		for at := l.First; at < Words; at += l.Words {
			if p[at] != 0 && counts(l.Get(p, at+1)) && Prefix(p[at], shards, d.Depth)>>(d.Depth-p.Depth()) != i>>(d.Depth-p.Depth()) {
				t.Fatalf("%x is on the wrong page", p[at])
			}
		}
	}
}

// What is put into pages is found again, however they are split; what does not
// fit any more was in least debt, and is not above its floor.
func FuzzPages(f *testing.F) {
	for n := range uint16(40) {
		f.Add(uint64(n), n*100, uint8(n%6))
	}
	f.Fuzz(func(t *testing.T, chance uint64, n uint16, maxDepth uint8) {
		const shards = 7
		random := rand.New(rand.NewPCG(chance, 4))
		d := Directory{Pages: []*Page{new(Page)}}
		full := Level(1000) // up to it, buckets are full
		kept := map[uint64]uint64{}
		for range n {
			print := max(random.Uint64(), 1)
			if len(kept) > 0 && random.IntN(3) == 0 {
				for print = range kept {
					break
				}
			}
			b := uint64(full) + 1 + uint64(random.IntN(1000))
			p := d.Page(print, shards)
			at, spare, live := full.Find(p, print)
			if was := kept[print]; at == 0 && was > uint64(full) && p[Buckets.Floor(print)] < was {
				t.Fatalf("%x was forgotten at %d, but the floor is %d", print, was, p[Buckets.Floor(print)])
			}
			if known := Buckets.Find(p, print); known != at {
				t.Fatalf("%x is at %d and at %d", print, known, at)
			}
			for at == 0 && live && p.Depth() < maxDepth%6 {
				Split(&d, Buckets, p, print, shards, full)
				p = d.Page(print, shards)
				at, spare, live = full.Find(p, print)
			}
			if at != 0 {
				p[at] = b
			} else {
				Put(Buckets, p, spare, print, Value{A: b}, live, full)
			}
			kept[print] = b
			if random.IntN(10) == 0 {
				full++
			}
		}
		for print, b := range kept {
			p := d.Page(print, shards)
			at := Buckets.Find(p, print)
			switch {
			case at != 0 && p[at] != b:
				t.Fatalf("%x is at %d: want %d", print, p[at], b)
			case at == 0 && b > uint64(full) && p[Buckets.Floor(print)] < b:
				t.Fatalf("%x at %d is lost", print, b)
			}
		}
		checkPrefixes(t, Buckets, &d, shards, func(v Value) bool { return full.Weight(v) > 0 })
	})
}
