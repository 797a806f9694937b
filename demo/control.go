package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/verdictproxy/verdict/test/upstream"
)

// control reaches the control listener of a faulty upstream that runs as a process of its own.
type control struct {
	url    string
	client http.Client
}

func newControl(addr string) *control {
	return &control{url: "http://" + addr, client: http.Client{Timeout: 5 * time.Second}}
}

// do returns which start of the upstream has answered. A nil into is not read.
func (c *control) do(ctx context.Context, method, path string, into any) (started string, err error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, nil)
	if err != nil {
		return "", err
	}
	answer, err := c.client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", err
	}
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %.200s", path, answer.Status, body)
	}
	if into != nil {
		err = json.Unmarshal(body, into)
	}
	return answer.Header.Get(upstream.StartedHeader), err
}

// started says which start of the upstream runs now.
func (c *control) started(ctx context.Context) (string, error) {
	return c.do(ctx, http.MethodGet, "/stats", nil)
}

var errRestarted = errors.New("the upstream was started anew and has forgotten")

// hits are those of id, if the upstream has not been started anew since.
func (c *control) hits(ctx context.Context, id, started string) ([]upstream.Hit, error) {
	var hits []upstream.Hit
	now, err := c.do(ctx, http.MethodGet, "/hits?id="+url.QueryEscape(id), &hits)
	if err == nil && now != started {
		err = errRestarted
	}
	return hits, err
}

// late opens or shuts the late port.
func (c *control) late(ctx context.Context, act string) error {
	_, err := c.do(ctx, http.MethodPost, "/late/"+act, nil)
	return err
}
