package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/lash-go/lash/cmd/internal/oidc"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

// identifiers opens the sources of callers that the flags name.
func (d *httpServer) identifiers(ctx context.Context, s *program.Streams, f *httpFlags, log *zap.Logger, users map[string]api.Reach) error {
	if f.HTTPTokens == "" && f.HTTPOIDC == "" {
		return errors.New("--http needs --http-tokens FILE or the setting http-oidc; a line of tokens is made with: printf '%s write %s\\n' NAME $(printf %s \"$TOKEN\" | sha256sum | cut -d' ' -f1)")
	}
	tokens, err := httpapi.NewTokens(nil)
	if err != nil {
		return err
	}
	d.identity = []httpapi.Identifier{tokens}
	if f.HTTPTokens != "" {
		if err := d.files.add("--http-tokens", func(contents [][]byte) error { return replaceTokens(tokens, contents[0]) }, f.HTTPTokens); err != nil {
			return err
		}
	}
	if f.HTTPOIDC == "" {
		return nil
	}
	cfg, err := f.oidcConfig()
	if err != nil {
		return fmt.Errorf("setting http-oidc: %w", err)
	}
	cfg.Tenant, cfg.Reserved, cfg.Logger = f.HTTPTenant, taken(tokens, users), log
	defer s.NoteWait("the keys of the issuer in %s", f.HTTPOIDC)()
	if d.issuer, err = oidc.New(ctx, cfg); err != nil {
		return fmt.Errorf("setting http-oidc: %w", err)
	}
	d.identity = append(d.identity, d.issuer)
	return nil
}

// taken reports whether a name is that of a caller which an operator has named, in the file of tokens or of users of NATS: one name is one
// caller, over NATS and over HTTP.
func taken(tokens *httpapi.Tokens, users map[string]api.Reach) func(name string) bool {
	names := make(map[string]bool)
	for user := range users {
		name, _, _ := strings.Cut(user, "@")
		names[name] = true
	}
	return func(name string) bool { return names[name] || tokens.Has(name) }
}

// replaceTokens replaces the tokens by those of a file.
func replaceTokens(tokens *httpapi.Tokens, file []byte) error {
	list, err := httpapi.ParseTokens(bytes.NewReader(file))
	if err == nil && len(list) == 0 { // the file may be incomplete while it is written
		err = errors.New("no token is in it")
	}
	if err != nil {
		return err
	}
	return tokens.Replace(list)
}

func (f *httpFlags) oidcConfig() (oidc.Config, error) {
	file, err := program.ReadFile(f.HTTPOIDC, program.MaxFileBytes)
	if err != nil {
		return oidc.Config{}, err
	}
	return oidc.ParseConfig(bytes.NewReader(file))
}
