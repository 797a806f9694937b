package budget

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"
)

// Limits of Settings.
const (
	MinInterval = time.Second
	MaxInterval = time.Minute
	// MaxReserve bounds M, so that no sum of tokens can overflow.
	MaxReserve = 1_000_000_000
)

// Settings of one account. Two values that are equal behave alike. The zero value is not valid, and
// an account with invalid settings behaves as with Never.
type Settings struct {
	// Ratio is what a first attempt deposits, in milli-tokens: 0 to 1000. 0 is legal and earns nothing.
	Ratio int
	// Reserve is M, the tokens that may be spent in any interval without being earned:
	// min_retries_per_second x Interval, 0 to MaxReserve.
	Reserve int
	// Interval is how long a deposit lives: whole milliseconds, MinInterval to MaxInterval.
	Interval time.Duration

	mode mode
}

type mode uint8

const (
	limited mode = iota // by the fields of Settings
	never
	unlimited
)

var (
	// Never pays for no retry.
	Never = Settings{mode: never}
	// Unlimited pays for every retry; the payment law does not hold for it.
	Unlimited = Settings{mode: unlimited}
)

// DefaultSettings: ratio 0.2, 10 retries a second from the reserve, interval 10 s.
func DefaultSettings() Settings {
	return Settings{Ratio: 200, Reserve: 100, Interval: 10 * time.Second}
}

// NewSettings makes exact integers of a configuration's numbers, taken as the decimals they were
// written as: ratio a multiple of 0.001 in [0, 1], minRetriesPerSecond such that its product with
// the interval's seconds is an integer of at most MaxReserve. The error names every bad field.
func NewSettings(ratio, minRetriesPerSecond float64, interval time.Duration) (Settings, error) {
	milli, err := product(ratio, Token, 1)
	if err != nil || milli > Token {
		err = fmt.Errorf("ratio: %v is not a multiple of 0.001 from 0 to 1", ratio)
	}
	reserve, errReserve := product(minRetriesPerSecond, int64(interval), int64(time.Second))
	if errReserve != nil {
		errReserve = fmt.Errorf("min_retries_per_second: %v in an interval of %v %w", minRetriesPerSecond, interval, errReserve)
	}
	if err := errors.Join(err, checkInterval(interval), errReserve); err != nil {
		return Settings{}, err
	}
	return Settings{Ratio: int(milli), Reserve: int(reserve), Interval: interval}, nil
}

// product is x*num/den, exactly, with x read as its shortest decimal: 0.1 is a tenth.
func product(x float64, num, den int64) (int64, error) {
	if math.IsNaN(x) || x < 0 || x > MaxReserve {
		return 0, fmt.Errorf("is not a number from 0 to %d", MaxReserve)
	}
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(x, 'g', -1, 64))
	r.Mul(r, big.NewRat(num, den))
	if !r.IsInt() {
		return 0, fmt.Errorf("make %s tokens, which is not an integer", r.FloatString(3))
	}
	if r.Cmp(big.NewRat(MaxReserve, 1)) > 0 {
		return 0, fmt.Errorf("make %s tokens, more than %d", r.FloatString(0), MaxReserve)
	}
	return r.Num().Int64(), nil
}

func checkInterval(d time.Duration) error {
	if d < MinInterval || d > MaxInterval || d%time.Millisecond != 0 {
		return fmt.Errorf("interval: %v is not between %v and %v in whole milliseconds", d, MinInterval, MaxInterval)
	}
	return nil
}

// Validate returns nil, or an error that names every field out of range.
func (s Settings) Validate() error {
	if s.mode != limited {
		return nil
	}
	var errs []error
	if !s.ratioOK() {
		errs = append(errs, fmt.Errorf("ratio: %d milli-tokens is not from 0 to %d", s.Ratio, Token))
	}
	if !s.reserveOK() {
		errs = append(errs, fmt.Errorf("reserve: %d tokens is not from 0 to %d", s.Reserve, MaxReserve))
	}
	return errors.Join(append(errs, checkInterval(s.Interval))...)
}

func (s Settings) ratioOK() bool   { return s.Ratio >= 0 && s.Ratio <= Token }
func (s Settings) reserveOK() bool { return s.Reserve >= 0 && s.Reserve <= MaxReserve }

// MinRetriesPerSecond is Reserve as a rate.
func (s Settings) MinRetriesPerSecond() float64 {
	if s.Interval <= 0 {
		return 0
	}
	return float64(s.Reserve) / s.Interval.Seconds()
}

// milli is what a first attempt earns under settings that nobody may have validated.
func (s Settings) milli() int64 {
	if s.pays() != limited {
		return 0
	}
	return int64(s.Ratio)
}

// IsNever reports whether an account with these settings never pays: Never, and invalid settings.
func (s Settings) IsNever() bool { return s.pays() == never }

// IsUnlimited reports whether these are Unlimited.
func (s Settings) IsUnlimited() bool { return s.mode == unlimited }

// pays reads settings that nobody validated the safe way.
func (s Settings) pays() mode {
	if s.mode == limited && (!s.ratioOK() || !s.reserveOK() || checkInterval(s.Interval) != nil) {
		return never
	}
	return s.mode
}

func (s Settings) String() string {
	switch s.pays() {
	case unlimited:
		return "unlimited"
	case limited:
		return fmt.Sprintf("ratio %v, min_retries_per_second %v, interval %v",
			float64(s.Ratio)/Token, s.MinRetriesPerSecond(), s.Interval)
	default:
		return "never"
	}
}
