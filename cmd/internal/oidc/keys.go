package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/lash-go/lash/events/localfile"
)

const (
	readWait  = 5 * time.Second  // for the issuer's answer
	readPause = 10 * time.Second // between reads for tokens with an unknown key
)

// keys are an issuer's.
type keys struct {
	read       func(context.Context) ([]byte, error)
	signatures []jose.SignatureAlgorithm
	now        func() time.Time
	log        *zap.Logger

	reading chan struct{} // has one element during a read: one read at a time
	tried   time.Time     // start of the last read; guarded by reading

	mu       sync.RWMutex
	list     []jose.JSONWebKey
	wereRead bool // the keys were read once: from then on a token with an unknown key is refused
}

// ready is false until the first read of the keys; until then no token can be checked.
func (k *keys) ready() bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.wereRead
}

var errNoKey = errors.New("no key of the issuer verifies the token")

// verified returns the payload of a token that one of the keys signed.
func (k *keys) verified(ctx context.Context, text string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(text, k.signatures)
	if err != nil {
		return nil, errors.New("malformed, or signed by an algorithm that is not allowed")
	}
	if !isAccess(signed.Signatures[0].Header.ExtraHeaders) {
		return nil, errors.New("header typ is neither JWT nor at+jwt")
	}
	if payload, known := k.verify(signed); known {
		return payloadOf(payload)
	}
	k.refreshFor(ctx)
	payload, _ := k.verify(signed)
	return payloadOf(payload)
}

// isAccess reports whether a header says nothing about the type of its token, or that it is a JWT or an access token (RFC 9068). What an
// issuer signs for another purpose, as a logout token, has another type. Names of media types count in any case (RFC 7515).
func isAccess(header map[jose.HeaderKey]any) bool {
	typ, given := header[jose.HeaderType]
	text, _ := typ.(string)
	text, _ = strings.CutPrefix(strings.ToLower(text), "application/")
	return !given || text == "jwt" || text == "at+jwt"
}

func payloadOf(payload []byte) ([]byte, error) {
	if payload == nil {
		return nil, errNoKey
	}
	return payload, nil
}

// verify returns the payload; nil where no key fits. known reports whether the token's key id is known: another read
// would not help then.
func (k *keys) verify(signed *jose.JSONWebSignature) (payload []byte, known bool) {
	k.mu.RLock()
	list := k.list
	k.mu.RUnlock()
	id := signed.Signatures[0].Header.KeyID
	for i := range list {
		if id != "" && list[i].KeyID != id {
			continue
		}
		known = known || id != ""
		if list[i].Algorithm != "" && list[i].Algorithm != signed.Signatures[0].Header.Algorithm {
			continue
		}
		if payload, err := signed.Verify(&list[i]); err == nil {
			return payload, true
		}
	}
	return nil, known
}

// refreshFor reads the keys for a token with an unknown key, at most once per readPause.
func (k *keys) refreshFor(ctx context.Context) {
	select {
	case k.reading <- struct{}{}:
		defer func() { <-k.reading }()
	case <-ctx.Done():
		return
	}
	if k.now().Sub(k.tried) < readPause {
		return
	}
	if err := k.load(context.WithoutCancel(ctx)); err != nil { // the result also serves the next callers
		k.failed(err)
	}
}

// failed logs a failed read.
func (k *keys) failed(err error) {
	if k.ready() {
		k.log.Warn("the issuer's keys are not read again: those that were read before stay in use", zap.Error(err))
		return
	}
	k.log.Error("the issuer's keys are not read: its tokens are answered with 503 until they are", zap.Error(err))
}

// refresh reads the keys, and waits for a running read first.
func (k *keys) refresh(ctx context.Context) error {
	k.reading <- struct{}{} // waits at most for one read
	defer func() { <-k.reading }()
	return k.load(ctx)
}

// load reads the keys. The caller has the reading slot.
func (k *keys) load(ctx context.Context) error {
	k.tried = k.now()
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	data, err := k.read(ctx)
	if err != nil {
		return fmt.Errorf("read the issuer's keys: %w", err)
	}
	list, err := parseKeys(data)
	if err != nil {
		return fmt.Errorf("the issuer's keys: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.wereRead && len(list) > 0 {
		k.log.Info("the issuer's keys are read", zap.Int("keys", len(list)))
	}
	k.list, k.wereRead = list, k.wereRead || len(list) > 0
	return nil
}

// parseKeys returns the public signature keys of a JWKS, and skips other keys: a symmetric key verifies nothing here,
// and an issuer may have keys of unknown kinds. An empty set is valid: the issuer revoked its last key.
func parseKeys(data []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, errors.New("is no JSON web key set")
	}
	var list []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if err := key.UnmarshalJSON(raw); err == nil && key.IsPublic() && key.Valid() && (key.Use == "" || key.Use == "sig") {
			list = append(list, key)
		}
	}
	if len(list) == 0 && (len(set.Keys) > 0 || set.Keys == nil) {
		return nil, errors.New("has no public key for signatures")
	}
	return list, nil
}

func readFile(path string) ([]byte, error) {
	file, err := localfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return bounded(file)
}

func readURL(ctx context.Context, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a redirect may lead to another host
	}}
	got, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = got.Body.Close() }() // it was only read
	if got.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d, want 200", got.StatusCode)
	}
	return bounded(got.Body)
}

func bounded(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxKeys+1))
	if err == nil && len(data) > maxKeys {
		err = fmt.Errorf("above the limit of %d bytes", maxKeys)
	}
	return data, err
}
