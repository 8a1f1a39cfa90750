package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/oauth2"

	"github.com/lash-go/lash/events/localfile"
)

// tokens is the content of a file of tokens.
type tokens struct {
	Server       string           `json:"server"` // endpoint that they are for
	ClientID     string           `json:"client_id"`
	ClientSecret string           `json:"client_secret,omitempty"`
	TokenURL     string           `json:"token_url"`
	AuthStyle    oauth2.AuthStyle `json:"auth_style"`
	Scopes       []string         `json:"scopes,omitempty"`
	Resource     string           `json:"resource,omitempty"` // that the tokens are for, as the server names itself
	Refused      int              `json:"refused,omitempty"`  // status of a request for which a login is needed
	Challenges   []string         `json:"challenges,omitempty"`
	LoggedIn     time.Time        `json:"logged_in,omitzero"`
	Token        oauth2.Token     `json:"token"`
}

func (f *tokens) client() *oauth2.Config {
	return &oauth2.Config{ClientID: f.ClientID, ClientSecret: f.ClientSecret, Endpoint: oauth2.Endpoint{TokenURL: f.TokenURL, AuthStyle: f.AuthStyle}, Scopes: f.Scopes}
}

// maxFile limits a file of tokens, in bytes.
const maxFile = 1 << 20

// errUnchanged ends a change that has nothing to write.
var errUnchanged = errors.New("unchanged")

// read reads a file of tokens; one that is missing is empty.
func read(path string) (f tokens, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return f, fmt.Errorf("others may read %s (%s): chmod 600 it", path, info.Mode().Perm())
	}
	var data []byte
	if err == nil {
		data, err = localfile.Read(path, maxFile)
	}
	if err == nil && json.Unmarshal(data, &f) != nil { // its error may have a part of a token
		err = fmt.Errorf("%s is no file of tokens: remove it, and log in again", path)
	}
	return f, err
}

// change changes a file of tokens as a whole. Changes of several processes follow each other.
func change(ctx context.Context, path string, do func(*tokens) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return fmt.Errorf("wait for %s: %w", lock.Path(), err)
	}
	defer func() { _ = lock.Unlock() }()
	f, err := read(path)
	if err != nil {
		return err
	}
	if err := do(&f); err != nil {
		if errors.Is(err, errUnchanged) {
			return nil
		}
		return err
	}
	data, err := json.MarshalIndent(&f, "", "  ")
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(path), ".tokens-*") // mode 600
	if err != nil {
		return err
	}
	_, err = next.Write(append(bytes.TrimSpace(data), '\n'))
	if err == nil {
		err = next.Sync()
	}
	if err = errors.Join(err, next.Close()); err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		_ = os.Remove(next.Name())
	}
	return err
}
