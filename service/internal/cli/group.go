package cli

import (
	"slices"

	"github.com/alecthomas/kong"
)

// arrange sorts the flags of each command by their groups. Flags without a group come first: a user needs them first.
func (p *Program) arrange(k *kong.Kong) error {
	k.Model.HelpFlag.Help = "Show this help. Each flag is also an environment variable: --max-wait is $WEIR_MAX_WAIT."
	order := func(f *kong.Flag) int {
		if f.Group == nil {
			return -1
		}
		return slices.IndexFunc(p.Groups, func(g kong.Group) bool { return g.Key == f.Group.Key })
	}
	return kong.Visit(k.Model, func(n kong.Visitable, next kong.Next) error {
		if command, ok := n.(*kong.Node); ok {
			slices.SortStableFunc(command.Flags, func(a, b *kong.Flag) int { return order(a) - order(b) })
		}
		return next(nil)
	})
}
