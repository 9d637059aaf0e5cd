//go:build race

package arena

func init() { slow = true }
