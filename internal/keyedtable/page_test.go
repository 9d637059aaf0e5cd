package keyedtable

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/weir-go/weir/internal/siphash"
)

func TestSizes(t *testing.T) {
	for _, l := range []*layout{bucketLayout, windowLayout} {
		if l.first < 1+l.floors*(l.words-1) || l.first+l.slots*l.words != pageWords || l.homes*l.group != l.slots*l.words {
			t.Errorf("%+v: floors and slots do not fit on a page", *l)
		}
	}
	if bucketLayout.floors != 7 || bucketLayout.first*8 != 64 || windowLayout.floors != 5 {
		t.Errorf("%d and %d floors; slots of buckets begin at %d", bucketLayout.floors, windowLayout.floors, bucketLayout.first*8)
	}
	if n := unsafe.Sizeof(shard[string]{}); n != shardBytes {
		t.Errorf("a shard has %d bytes: want %d", n, shardBytes)
	}
	for _, memory := range []int{MinMemory, 100_000, 1 << 20, 10 << 20, 64 << 20, 100 << 20, 1 << 30} {
		tt := newTable[int](&Config{Memory: memory}, bucketLayout, siphash.Key{})
		if most := len(tt.shards) * shardMost(tt.maxDepth); most > memory || most < memory*9/10 {
			t.Errorf("%d bytes: %d shards of %d pages are %d", memory, len(tt.shards), 1<<tt.maxDepth, most)
		}
	}
}

// A search begins at the first slot that near returns.
func TestNear(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	p := new(page)
	for range 10_000 {
		if print := random.Uint64(); &near(p, print)[0] != &p[bucketLayout.home(print)] {
			t.Fatalf("%x", print)
		}
	}
}

// checkPrefixes fails if a value that counts is not on the page of its
// fingerprint.
func checkPrefixes(t *testing.T, l *layout, d *directory, shards uint64, counts func(value) bool) {
	t.Helper()
	for i, p := range d.pages {
		for at := l.first; at < pageWords; at += l.words {
			if p[at] != 0 && counts(l.get(p, at+1)) && prefix(p[at], shards, d.depth)>>(d.depth-p.depth()) != i>>(d.depth-p.depth()) {
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
		d := directory{pages: []*page{new(page)}}
		full := level(1000) // up to it, buckets are full
		kept := map[uint64]uint64{}
		for range n {
			print := max(random.Uint64(), 1)
			if len(kept) > 0 && random.IntN(3) == 0 {
				for print = range kept {
					break
				}
			}
			b := uint64(full) + 1 + uint64(random.IntN(1000))
			p := d.page(print, shards)
			at, spare, live := full.find(bucketLayout, p, print)
			if was := kept[print]; at == 0 && was > uint64(full) && p[bucketLayout.floor(print)] < was {
				t.Fatalf("%x was forgotten at %d, but the floor is %d", print, was, p[bucketLayout.floor(print)])
			}
			if known := bucketLayout.find(p, print); known != at {
				t.Fatalf("%x is at %d and at %d", print, known, at)
			}
			for at == 0 && live && p.depth() < maxDepth%6 {
				split(&d, bucketLayout, p, print, shards, full)
				p = d.page(print, shards)
				at, spare, live = full.find(bucketLayout, p, print)
			}
			if at != 0 {
				p[at] = b
			} else {
				put(bucketLayout, p, spare, print, value{a: b}, live, full)
			}
			kept[print] = b
			if random.IntN(10) == 0 {
				full++
			}
		}
		for print, b := range kept {
			p := d.page(print, shards)
			at := bucketLayout.find(p, print)
			switch {
			case at != 0 && p[at] != b:
				t.Fatalf("%x is at %d: want %d", print, p[at], b)
			case at == 0 && b > uint64(full) && p[bucketLayout.floor(print)] < b:
				t.Fatalf("%x at %d is lost", print, b)
			}
		}
		checkPrefixes(t, bucketLayout, &d, shards, func(v value) bool { return full.weight(v) > 0 })
	})
}
