package main

import "testing"

func TestProse(t *testing.T) {
	for _, tt := range []struct {
		rule, name, text string
		riddles          int
	}{
		{"a comment", "a.go", "package a // for whoever asks\n", 1},
		{"a name is no prose", "a.go", "package a\n\nvar who int\n", 0},
		{"a help text", "a.go", "package a\n\nvar x = \"nobody waits\"\n", 1},
		{"a string of a test", "a_test.go", "package a\n\nvar x = \"nobody waits\"\n", 0},
		{"a comment over lines", "a.go", "package a\n\n/* one\nwho\n*/\n", 1},
		{"a document", "a.md", "# Who\n\nplain\n", 1},
		{"part of a word", "a.md", "the whole\n", 0},
		{"a program's output", "a.txt", "who\n", 0},
	} {
		found := 0
		for _, p := range prose(tt.name, []byte(tt.text)) {
			if riddle.MatchString(p.text) {
				found++
			}
		}
		if found != tt.riddles {
			t.Errorf("%s: %d riddles, want %d", tt.rule, found, tt.riddles)
		}
	}
}
