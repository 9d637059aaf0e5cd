package bytesize_test

import (
	"testing"

	"github.com/weir-go/weir/service/internal/bytesize"
)

func TestSize(t *testing.T) {
	for text, want := range map[string]bytesize.Size{"0": 0, "65536": 64 << 10, "1KiB": 1 << 10, "3MiB": 3 << 20, "2GiB": 2 << 30, "1500": 1500} {
		var got bytesize.Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %d, %v: want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "1MB", "1.5MiB", "MiB", "9223372036854775808", "9223372036854775807KiB"} {
		if err := new(bytesize.Size).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	for size, want := range map[bytesize.Size]string{0: "0", 1: "1", 64 << 10: "64KiB", 1 << 20: "1MiB", 1536 << 10: "1536KiB", 3 << 30: "3GiB"} {
		if got := size.String(); got != want {
			t.Errorf("%d: %s: want %s", size, got, want)
		}
	}
}
