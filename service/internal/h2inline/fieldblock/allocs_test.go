//go:build !race

package fieldblock_test

import (
	"testing"

	"github.com/weir-go/weir/service/internal/h2inline/fieldblock"
)

// Requests that resemble the one before do not allocate.
func TestAllocations(t *testing.T) {
	d, list := fieldblock.NewDecoder(most), blocks()
	for _, b := range list[:3] {
		if _, _, err := d.Decode(b); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _, _, _ = d.Decode(list[2]) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
