'use strict';
window.WORDS = {
  first: ['Anna','Ben','Carla','David','Elena','Frank','Grace','Hugo','Irene','Jonas','Karin','Liam','Mona','Nils','Olga','Peter','Quinn','Rosa','Sam','Tina','Uwe','Vera','Walter','Xenia','Yara','Zoe'],
  last: ['Adler','Brandt','Costa','Dorn','Evans','Fischer','Garcia','Hansen','Ivanov','Jansen','Keller','Lopez','Meyer','Novak','Olsen','Price','Reyes','Silva','Tanaka','Urban','Vogel','Weber','Young','Ziegler'],
  city: ['Berlin','Lisbon','Oslo','Madrid','Vienna','Prague','Dublin','Athens','Zurich','Warsaw','Helsinki','Porto','Ghent','Turin'],
  street: ['Oak Street 12','Mill Lane 4','Harbour Road 81','Hill Avenue 7','Station Road 33','Park Row 19','River Walk 56','Garden Way 2'],
  subject: ['Budget for May','Lunch on Friday','New office keys','Train tickets','Meeting notes','Holiday plan','Invoice 4471','Project kick-off','Photos from Sunday','Printer is broken','Birthday party','Contract draft','Weekly report','Parking permit','Team dinner','Course sign-up','Garden tools','Lost umbrella','Concert on Saturday','Water bill'],
  todo: ['Buy milk','Call the bank','Water plants','Fix the bike','Book dentist','Wash the car','Pay rent','Pick up parcel','Read chapter 3','Clean kitchen','Feed the cat','Order paint','Renew passport','Send postcard','Bake bread','Sort photos','Iron shirts','Charge drill','Mow the lawn','Return books'],
  product: ['Desk Lamp','Wool Blanket','Coffee Mug','Rain Jacket','Backpack','Notebook','Headphones','Water Bottle','Running Shoes','Alarm Clock','Tea Pot','Umbrella','Sunglasses','Leather Belt','Board Game','Yoga Mat','Pocket Knife','Camera Bag','Wall Mirror','Bread Knife','Bath Towel','Phone Case','Bike Helmet','Garden Chair'],
  colour: [['Red','#c62828'],['Blue','#1565c0'],['Green','#2e7d32'],['Black','#212121'],['Orange','#e65100'],['Purple','#6a1b9a']],
  size: ['Small','Medium','Large','Extra Large'],
  switch: ['Wi-Fi','Bluetooth','Airplane mode','Dark theme','Location','Auto-rotate','Night light','Hotspot','Vibration','Battery saver','Mobile data','Do not disturb','Auto-update','Caps lock','Read aloud','Backup','Flash alerts','Keyboard sound','Data saver','Screen lock'],
  choice: { Language: ['English','French','German','Spanish','Italian','Dutch'], 'Text size': ['Tiny','Normal','Big','Huge'], Wallpaper: ['Forest','Ocean','Desert','City','Mountains'], Ringtone: ['Bells','Piano','Drums','Guitar','Birds'], 'Time zone': ['London','Paris','Tokyo','New York','Sydney'] },
  slider: ['Brightness','Media volume','Alarm volume','Call volume','Contrast'],
  country: ['Austria','Belgium','Canada','Denmark','Finland','Greece','Ireland','Japan','Norway','Portugal'],
  topic: ['Delivery','Payment','Account','Feedback','Returns'],
  news: ['City opens new tram line','Old bridge to close in June','Library adds night hours','Local team wins the cup','Rain expected all week','Market moves to the square','School builds a garden','Museum shows rare maps','Harbour fair starts today','Bakery turns one hundred'],
};
// One path per icon on a 24 x 24 grid, drawn here; strokes of width 2.
window.ICONS = {
  back: 'M15 4 L7 12 L15 20', home: 'M4 11 L12 4 L20 11 V20 H4 Z', square: 'M5 5 H19 V19 H5 Z', circle: 'M12 4 A8 8 0 1 0 12.01 4',
  menu: 'M4 6 H20 M4 12 H20 M4 18 H20', search: 'M10 4 A6 6 0 1 0 10.01 4 M15 15 L20 20', star: 'M12 3 L14.6 9.2 L21 9.8 L16 14 L17.6 20.5 L12 17 L6.4 20.5 L8 14 L3 9.8 L9.4 9.2 Z',
  delete: 'M5 7 H19 M9 7 V4 H15 V7 M7 7 L8 20 H16 L17 7', cart: 'M3 4 H6 L8 15 H18 L20 7 H7 M9 19 V20 M17 19 V20', plus: 'M12 4 V20 M4 12 H20', close: 'M5 5 L19 19 M19 5 L5 19',
  check: 'M4 12 L10 18 L20 6', mail: 'M3 6 H21 V18 H3 Z M3 6 L12 13 L21 6', person: 'M12 4 A4 4 0 1 0 12.01 4 M4 21 C4 14 20 14 20 21', settings: 'M12 8 A4 4 0 1 0 12.01 8 M12 2 V5 M12 19 V22 M2 12 H5 M19 12 H22 M5 5 L7 7 M17 17 L19 19 M19 5 L17 7 M7 17 L5 19',
  list: 'M9 6 H20 M9 12 H20 M9 18 H20 M4 6 H5 M4 12 H5 M4 18 H5', archive: 'M3 5 H21 V9 H3 Z M5 9 V20 H19 V9 M10 13 H14', reply: 'M10 6 L4 12 L10 18 M4 12 H14 C18 12 20 15 20 19', send: 'M3 4 L21 12 L3 20 L7 12 Z',
  news: 'M4 4 H17 V20 H4 Z M17 9 H20 V20 H17 M7 8 H14 M7 12 H14 M7 16 H11', right: 'M9 4 L17 12 L9 20', down: 'M4 9 L12 17 L20 9', heart: 'M12 20 C2 12 4 4 9 5 C11 5 12 8 12 8 C12 8 13 5 15 5 C20 4 22 12 12 20', bell: 'M6 17 V11 C6 3 18 3 18 11 V17 H4 H20 M10 20 H14',
  share: 'M18 5 L6 12 L18 19 M18 4 V6 M6 11 V13 M18 18 V20', edit: 'M4 20 L5 15 L16 4 L20 8 L9 19 Z', phone: 'M5 4 H9 L11 9 L8 11 C9 14 11 15 13 16 L15 13 L20 15 V19 C12 21 4 12 5 4', camera: 'M3 7 H8 L10 4 H14 L16 7 H21 V19 H3 Z M12 9 A4 4 0 1 0 12.01 9',
  box: 'M4 7 L12 3 L20 7 V17 L12 21 L4 17 Z M4 7 L12 11 L20 7 M12 11 V21', minus: 'M4 12 H20', clock: 'M12 3 A9 9 0 1 0 12.01 3 M12 7 V12 L16 14', play: 'M7 4 L19 12 L7 20 Z', map: 'M12 21 C5 13 5 4 12 4 C19 4 19 13 12 21 M12 8 V10', lock: 'M5 11 H19 V20 H5 Z M8 11 V7 C8 2 16 2 16 7 V11',
};
window.PALETTES = [['#1450a3','#e4edfb'],['#0b6b3a','#e2f4e9'],['#8a1c5c','#f8e6f0'],['#9a3d00','#fbeadf'],['#4527a0','#ece7f8'],['#00616b','#e0f3f4'],['#a01818','#fae5e5'],['#333a45','#eceef1']];
