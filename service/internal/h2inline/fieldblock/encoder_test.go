package fieldblock_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/weir-go/weir/service/internal/h2inline/fieldblock"
)

// A decoder as clients have it reads what an Encoder makes of more values that come again than the table holds, before and after
// it is emptied, and of values that have the memory or the text of another.
func TestEncoder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var all [][2]string
	for i := range 30 {
		name := []string{"Content-Type", "Cache-Control", "Date", "Ratelimit-Policy", "X-Other"}[i%5]
		value := strings.Repeat("v", rng.IntN(100)) + fmt.Sprint(i)
		all = append(all, [2]string{name, value})
	}
	var e fieldblock.Encoder
	client := hpack.NewDecoder(4096, nil)
	b := e.AppendSize(nil)
	repeated := 0
	for i := range 20_000 {
		if i == 15_000 {
			e.Off()
			b = e.AppendSize(nil)
			client.SetAllowedMaxDynamicTableSize(0)
		}
		var want []hpack.HeaderField
		for at := range rng.IntN(9) {
			one := all[at*3+min(rng.IntN(at+2), rng.IntN(10))%3] // the first places mostly have the same
			if i%1000 > 900 {
				one = all[rng.IntN(len(all))]
			}
			n, name, value := len(b), one[0], one[1]
			switch rng.IntN(20) {
			case 0:
				name = "X-Same"
			case 1:
				value = value[:len(value)/2]
			case 2:
				value = strings.Clone(value)
			}
			if b = e.Append(b, at, fieldblock.NameOf(name), value); len(b) == n+1 {
				repeated++
			}
			want = append(want, hpack.HeaderField{Name: strings.ToLower(name), Value: value})
		}
		got, err := client.DecodeFull(b)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("block %d: %v, %v: want %v", i, got, err, want)
		}
		b = b[:0]
	}
	if repeated < 15_000 {
		t.Errorf("%d fields took a byte", repeated)
	}
}
