package keyed

import (
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/siphash"
)

func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(page{}); n != pageBytes {
		t.Errorf("a page has %d bytes: want %d", n, pageBytes)
	}
	if n := unsafe.Offsetof(page{}.slots); n != 64 {
		t.Errorf("the slots are at %d: want them to begin a cache line", n)
	}
	if n := unsafe.Sizeof(shard[string]{}); n != shardBytes {
		t.Errorf("a shard has %d bytes: want %d", n, shardBytes)
	}
	for _, memory := range []int{MinMemory, 100_000, 1 << 20, 10 << 20, 64 << 20, 100 << 20, 1 << 30} {
		q := gcra.Per(1, time.Second, 1)
		tt := newTable[int](memory, siphash.Key{}, &q)
		if most := len(tt.shards) * shardMost(tt.maxDepth); most > memory || most < memory*9/10 {
			t.Errorf("%d bytes: %d shards of %d pages are %d", memory, len(tt.shards), 1<<tt.maxDepth, most)
		}
	}
}

// What is put into pages is found again, however they are split; what does not
// fit any more is what was in least debt, and is not above its floor.
func FuzzPages(f *testing.F) {
	for n := range uint16(40) {
		f.Add(uint64(n), n*100, uint8(n%6))
	}
	f.Fuzz(func(t *testing.T, chance uint64, n uint16, maxDepth uint8) {
		const shards = 7
		random := rand.New(rand.NewPCG(chance, 4))
		d := directory{pages: []*page{new(page)}}
		level := gcra.Bucket(1000) // below it, buckets are full
		kept := map[uint64]gcra.Bucket{}
		for range n {
			print := max(random.Uint64(), 1)
			if len(kept) > 0 && random.IntN(3) == 0 {
				for print = range kept {
					break
				}
			}
			b := level + 1 + gcra.Bucket(random.IntN(1000))
			p := d.page(print, shards)
			s, found := p.find(print, level)
			if was := kept[print]; !found && was > level && *p.floor(print) < was {
				t.Fatalf("%x was forgotten at %d, but the floor is %d", print, was, *p.floor(print))
			}
			for !found && s.bucket > level && p.depth < maxDepth%6 {
				d.split(p, print, shards, level)
				p = d.page(print, shards)
				s, found = p.find(print, level)
			}
			if found {
				s.bucket = b
			} else {
				p.put(s, print, b, level)
			}
			kept[print] = b
			if random.IntN(10) == 0 {
				level++
			}
		}
		for print, b := range kept {
			p := d.page(print, shards)
			s, found := p.find(print, level)
			switch {
			case found && s.bucket != b:
				t.Fatalf("%x is at %d: want %d", print, s.bucket, b)
			case !found && b > level && *p.floor(print) < b:
				t.Fatalf("%x at %d is lost", print, b)
			}
		}
		for i, p := range d.pages {
			for _, s := range p.slots {
				if s.bucket > level && prefix(s.print, shards, d.depth)>>(d.depth-p.depth) != i>>(d.depth-p.depth) {
					t.Fatalf("%x is on the wrong page", s.print)
				}
			}
		}
	})
}
