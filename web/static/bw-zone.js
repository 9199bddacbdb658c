// Offers the zone of whoever looks, once, where the field still says what the server chose.
const field = /** @type {HTMLInputElement | null} */ (document.querySelector('input[data-zone]'));
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (field && zone && !new URL(location.href).searchParams.has('zone') && field.value === field.defaultValue) field.value = zone;
