package connlimit

import "testing"

// If the process may open few files, other uses have theirs.
func TestFewFiles(t *testing.T) {
	for _, tt := range []struct{ files, each, others, want int }{
		{1 << 20, 1, 156, 1<<20 - 156},
		{1024, 1, 156, 1024 - 156},
		{100, 1, 156, 50},
		{1024, 2, 64, 480},
		{80, 2, 64, 20},
		{2, 2, 64, 1},
	} {
		if got := roomFor(tt.files, tt.each, tt.others); got != tt.want {
			t.Errorf("of %d files, %d for others, and %d each: %d, want %d", tt.files, tt.others, tt.each, got, tt.want)
		}
	}
	if maxFiles() < 100 {
		t.Errorf("%d files", maxFiles())
	}
}
