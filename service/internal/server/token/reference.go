package token

import "github.com/weir-go/weir/service/internal/filedoc"

// Reference describes every key of a file.
var Reference = []filedoc.Field{
	{Path: "tokens", Kind: filedoc.List, Text: "The tokens; at most 1,000. With `[]`, every request is refused."},
	{Path: "tokens[].name", Kind: filedoc.Text, Example: "checkout", Text: "Names the token in answers and logs. Must be given; no two the same."},
	{Path: "tokens[].sha256", Kind: filedoc.Text, Example: "6b51…a918",
		Text: "The SHA-256 of the secret, 64 hexadecimal digits: `printf %s \"$SECRET\" | sha256sum`. A token has this or `token`."},
	{Path: "tokens[].token", Kind: filedoc.Text, Example: "a-secret-of-at-least-16-bytes", Text: "The secret itself, at least 16 bytes."},
	{Path: "tokens[].keys", Kind: filedoc.List, Default: "all keys", Example: `["user:*", "cart:?"]`, Text: "The keys that it is for: globs, as in the rules."},
	{Path: "tokens[].allow", Kind: filedoc.List, Default: "`[decide, lease]`", Example: "[decide, lease, debug]",
		Text: "What it may do: `decide` asks for tokens of a rate and settles grants; `lease` acquires, renews and returns leases; " +
			"`debug` reads `/debug`; `metrics` reads `/metrics` at the listener of operators, and `admin` uses all of it, in a file of `--admin-tokens`."},
}

// Schema returns a JSON schema, draft 2020-12, of a file, for editors. Parse checks more.
func Schema() map[string]any {
	s := filedoc.Schema(Reference)
	s["title"] = "Tokens of weir serve and weir proxy"
	s["required"] = []string{"tokens"}
	item := s["properties"].(map[string]any)["tokens"].(map[string]any)["items"].(map[string]any)
	item["required"] = []string{"name"}
	item["oneOf"] = []any{map[string]any{"required": []string{"token"}}, map[string]any{"required": []string{"sha256"}}}
	return s
}
