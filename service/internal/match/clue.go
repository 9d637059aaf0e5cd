package match

// A place is where in the key a clue is.
type place uint8

const (
	nowhere place = iota // there is no clue
	whole
	begin
	end
	inside
)

// A clue is a text that is in every key that a pattern matches.
type clue struct {
	place place
	text  string
}

// clues returns what a pattern may be filed under, best first.
func (f *form) clues() []clue {
	if f.plain && f.begun && f.ended {
		return []clue{{whole, f.text()}}
	}
	var cs []clue
	if f.head != "" {
		cs = append(cs, clue{begin, f.head})
	}
	if f.tail != "" {
		cs = append(cs, clue{end, f.tail})
	}
	for _, text := range f.texts {
		n := min(len(text), gramWidth)
		for i := range len(text) - n + 1 {
			cs = append(cs, clue{inside, text[i : i+n]})
		}
	}
	return cs
}

// rarest returns the first of the clues that the fewest patterns have.
func rarest(cs []clue, shared map[clue]int) clue {
	var best clue
	for _, c := range cs {
		if best.place == nowhere || shared[c] < shared[best] {
			best = c
		}
	}
	return best
}

// text returns the longest of the texts.
func (f *form) text() string {
	longest := ""
	for _, text := range f.texts {
		if len(text) > len(longest) {
			longest = text
		}
	}
	return longest
}
