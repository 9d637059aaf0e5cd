package match

import (
	"regexp/syntax"
	"slices"
	"strings"
)

// maxTexts bounds the texts of a regex.
const maxTexts = 500

// regexTexts returns the texts that parts of a regex stand for, if these are few.
func regexTexts(re *syntax.Regexp) (all []string) {
	if texts, ok := expand(re); ok {
		return texts
	}
	run := []string{""} // of parts in a row
	flush := func() {
		if len(run) > 1 || run[0] != "" {
			all = append(all, run...)
		}
		run = []string{""}
	}
	for _, sub := range re.Sub {
		texts, ok := expand(sub)
		if !ok || re.Op != syntax.OpConcat || len(texts)*len(run) > maxTexts {
			flush()
			all = append(all, regexTexts(sub)...)
			continue
		}
		run = product(run, texts)
	}
	flush()
	return all[:min(len(all), maxTexts)]
}

// expand returns all texts that a regex stands for; ok is false if there are too many.
func expand(re *syntax.Regexp) (texts []string, ok bool) {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return []string{""}, true
	case syntax.OpLiteral:
		text := string(re.Rune)
		if re.Flags&syntax.FoldCase != 0 {
			lower, upper := strings.ToLower(text), strings.ToUpper(text)
			return slices.Compact([]string{lower, upper, upper[:1] + lower[1:]}), true
		}
		return []string{text}, true
	case syntax.OpCharClass:
		for i := 0; i+1 < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				if texts = append(texts, string(r)); len(texts) > 10 {
					return nil, false
				}
			}
		}
		return texts, true
	case syntax.OpCapture:
		return expand(re.Sub[0])
	case syntax.OpQuest:
		texts, ok = expand(re.Sub[0])
		return append(texts, ""), ok
	case syntax.OpConcat:
		texts = []string{""}
		for _, sub := range re.Sub {
			more, ok := expand(sub)
			if !ok || len(more)*len(texts) > maxTexts {
				return nil, false
			}
			texts = product(texts, more)
		}
		return texts, true
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			more, ok := expand(sub)
			if texts = append(texts, more...); !ok || len(texts) > maxTexts {
				return nil, false
			}
		}
		return texts, true
	}
	return nil, false
}

func product(heads, tails []string) (all []string) {
	for _, head := range heads {
		for _, tail := range tails {
			all = append(all, head+tail)
		}
	}
	return all
}
